"""Relaxed linear adversarial concept erasure (Ravfogel et al. 2022, arXiv 2201.12091).

    max over P in F_k of V(P),   V(P) = min over W, b of  loss((I - P) x; W, b) + penalty/2 ‖W‖²

V is at most the label entropy H(z), which is attained where I - P makes all class means coincide
(Belrose et al. 2023, Theorem 3.1). So for c classes and k ≥ c - 1 the span of their differences
is optimal, and no iteration is needed. The game itself is played by projected gradient ascent:

    ∇V(P) = -sym(C Wᵀ),   C = Σ_i ω_i x_i (p_i - z_i)ᵀ       (Danskin)

It ends by two bounds on the possible gain: H(z) - V, and max <∇V, Q - P> over Q in F_k. Without
a penalty the relaxed game is flat for P ≺ I; large penalties make it easy, so they fall in stages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, eigsh

from countergen_edit.core.seeds import generator
from countergen_edit.erasers.base import BaseEraser, Rank
from countergen_edit.erasers.convex import fantope_by_eigenvalues_cvxpy, fit_probe_cvxpy
from countergen_edit.erasers.labelled import LabelledRows, require_rank
from countergen_edit.erasers.logistic import Probe, fit_probe, label_entropy
from countergen_edit.erasers.numerics import (
    Square,
    fantope_projection,
    leading_directions,
    span_coordinates,
)
from countergen_edit.erasers.orthogonal import span_of_means

_Span = Float[np.ndarray, "s d"]
PENALTY_FACTORS = (1000.0, 100.0, 10.0, 1.0)
"""Penalties of the stages, in units of the last."""


@dataclass(frozen=True)
class Game:
    """Centred rows in coordinates of their span, and the rules of the game."""

    rows: LabelledRows
    k: int
    adversary: Callable[[LabelledRows, float, Probe | None], Probe]
    project: Callable[[Square, int], Square]
    tol: float
    max_iter: int

    def value(self, P: Square, penalty: float, warm: Probe | None) -> tuple[float, Probe]:
        """V(P) and the probe that attains it."""
        X = self.rows.X - self.rows.X @ P
        probe = self.adversary(replace(self.rows, X=X), penalty, warm)
        return probe.loss + 0.5 * penalty * float((probe.weights**2).sum()), probe

    def slope(self, P: Square, probe: Probe) -> Square:
        """∇V(P)."""
        X = self.rows.X
        residual = probe.probabilities(X - X @ P) - np.eye(len(self.rows.classes))[self.rows.codes]
        # With one logit column for two classes, that of the second class is it.
        cross = (X.T * (1.0 / len(X))) @ residual[:, -probe.weights.shape[1] :]
        slope = -cross @ probe.weights.T
        return np.asarray((slope + slope.T) / 2)

    def climb(
        self, P: Square, penalty: float, warm: Probe | None
    ) -> tuple[Square, float, int, Probe]:
        """Raise V until the gap is at most `tol`: the new P, gap, steps and probe."""
        bound = label_entropy(self.rows)
        now, probe = self.value(P, penalty, warm)
        slope = self.slope(P, probe)
        step = 1.0 / max(float(np.linalg.norm(slope, 2)), 1e-300)
        gap, n_iter = np.inf, 0
        while n_iter < self.max_iter:
            n_iter += 1
            best = leading_directions(slope, self.k)
            gap = min(bound - now, float(np.trace(best @ slope @ best.T) - (slope * P).sum()))
            if gap <= self.tol:
                break
            for _ in range(30):
                trial = self.project(P + step * slope, self.k)
                then, fitted = self.value(trial, penalty, probe)
                # Armijo's rule along the projected arc: a fixed share of the gain along the slope.
                if then >= now + 1e-4 * float((slope * (trial - P)).sum()):
                    break
                step *= 0.3
            else:
                break  # no step raises V beyond rounding
            moved, turned = trial - P, self.slope(trial, fitted) - slope
            P, now, probe, slope = trial, then, fitted, slope + turned
            # Barzilai and Borwein's step, from the curvature just met; ten times as long without.
            bend = abs(float((moved * turned).sum()))
            step = min(float((moved**2).sum()) / bend if bend > 0 else np.inf, 10.0 * step)
        return P, gap, n_iter, probe


@dataclass(eq=False, repr=False)
class RLACE(BaseEraser):
    """Erase the orthogonal projection that wins the game; mean: balanced over the groups.

    Parameters
    ----------
    rank : dimensions to erase, k
    solver : "auto" (the closed form if k ≥ c - 1, else the game), "minimax" (the game as published)
        or "cvxpy" (the game with each subproblem solved by cvxpy). Beyond c - 1 the closed form
        erases where the class covariances differ most.
    start : where the game begins: "class_means" or "random"
    penalty : of the final adversary, for rows scaled to E‖x - E x‖² = 1; the paper has none
    tol : gap in nats at which a stage ends
    max_iter : maximum number of steps of P in each of the four stages
    random_state : seed of a random start

    Attributes
    ----------
    n_iter_ : steps of the game; 1 for the closed form
    gap_ : bound on the possible gain, in nats (game only)

    >>> X = np.random.default_rng(0).normal(size=(80, 6))
    >>> RLACE(rank=1).fit(X, X[:, 0] > 0).certificate(X, X[:, 0] > 0).guaranteed
    True
    """

    rank: Rank = 1
    _: KW_ONLY
    solver: Literal["auto", "minimax", "cvxpy"] = "auto"
    start: Literal["class_means", "random"] = "class_means"
    penalty: float = 1e-3
    tol: float = 1e-4
    max_iter: int = 200
    random_state: int = 0

    def fit(self, X: Any, y: Any) -> RLACE:
        rows = self._read(X, y)
        require_rank(self.rank, rows.X.shape[1])
        span = span_of_means(rows.class_means)
        if self.solver == "auto" and self.rank >= len(span):
            self.n_iter_ = 1
            more = self.rank > len(span)
            self.note_ = (
                f"for {len(rows.classes)} groups and rank {self.rank} the published game has a "
                "closed form, the difference of the group means, as mean_difference erases it"
                f"{', and beyond it the axes on which class covariances differ' if more else ''}; "
                "solver=minimax plays the game"
            )
            directions = np.vstack([span, _padding(rows, span, self.rank - len(span))])
        else:
            self.note_ = ""
            directions = self._play(rows, span)
        self._store_orthogonal(directions, rows)
        return self

    def _play(self, rows: LabelledRows, span: _Span) -> Float[np.ndarray, "k d"]:
        centred = rows.X - rows.mean
        scale = np.sqrt(float((centred**2).sum(axis=1).mean())) or 1.0
        coordinates, basis = span_coordinates(centred / scale)
        if basis is None:
            basis = np.eye(rows.X.shape[1])
        rows = replace(rows, X=coordinates)
        k = min(self.rank, basis.shape[1] - 1)
        adversary = partial(fit_probe, tol=0.1 * self.tol)
        game = Game(rows, k, adversary, fantope_projection, self.tol, self.max_iter)
        if self.solver == "cvxpy":
            game = replace(game, adversary=fit_probe_cvxpy, project=fantope_by_eigenvalues_cvxpy)
        d = len(basis)
        first = generator(self.random_state, "rlace", d).normal(size=(d, k))
        if self.start == "class_means":
            first[:, : len(span[:k])] = span[:k].T
        frame, _ = np.linalg.qr(basis.T @ first)
        P, probe, self.n_iter_ = np.asarray(frame @ frame.T), None, 0
        for factor in PENALTY_FACTORS:
            P, gap, steps, probe = game.climb(P, factor * self.penalty, probe)
            self.n_iter_ += steps
        directions = leading_directions(P, game.k)
        self.gap_ = max(gap, 0.0)
        if self.gap_ > self.tol:
            self.note_ = f"the game was stopped at a gap of {self.gap_:.1g} nats (tol={self.tol})"
        return np.asarray(directions @ basis.T)


def _padding(rows: LabelledRows, span: _Span, k: int) -> Float[np.ndarray, "k d"]:
    """Leading eigenvectors of Σ_g (Σ_g - Σ̄)² outside `span`."""
    d = rows.X.shape[1]
    if k == 0:
        return np.zeros((0, d))
    shares = rows.sizes / len(rows.X)
    within = rows.X - rows.class_means[rows.codes]
    members = [within[rows.codes == g] for g in range(len(shares))]

    def covary(g: int, v: np.ndarray) -> np.ndarray:
        return np.asarray(members[g].T @ ((1.0 / len(members[g])) * (members[g] @ v)))

    def apply(v: np.ndarray) -> np.ndarray:
        v = _outside(v.ravel(), span)
        of_groups = [covary(g, v) for g in range(len(shares))]
        pooled = shares @ np.stack(of_groups)
        squares = np.stack([covary(g, of_group - pooled) for g, of_group in enumerate(of_groups)])
        return _outside(squares.sum(axis=0), span)

    first = generator(0, "rlace padding", d).normal(size=(d,))
    operator: Any = LinearOperator((d, d), matvec=apply, dtype=np.float64)
    solve: Any = eigsh  # scipy's stubs lack this operator
    _, vectors = solve(operator, k=k, which="LA", v0=_outside(first, span))
    frame, _ = np.linalg.qr(_outside(vectors[:, ::-1], span))
    return np.asarray(frame.T)


def _outside(vectors: Float[np.ndarray, "d ..."], span: _Span) -> Float[np.ndarray, "d ..."]:
    """Remove from vectors (columns) their part in the rows of `span`."""
    return np.asarray(vectors - span.T @ (span @ vectors))
