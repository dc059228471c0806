"""Relaxed linear adversarial concept erasure (Ravfogel et al. 2022, https://arxiv.org/abs/2201.12091).

    max over P in F_k of  min over θ of  loss(θ; (I - P) x),    F_k = { 0 ⪯ P ⪯ I, tr P = k }

The value of the game is at most the label entropy H(z), for θ may ignore x. By Belrose et al. 2023
(Theorem 3.1) it is H(z) exactly where I - P makes all class means coincide, so for c classes and
k ≥ c - 1 the span of their differences is an optimum: no iteration is needed, and the distance to
H(z) certifies any other answer. Between two groups that is every rank: unless the game is asked for
(`solver="minimax"`), RLACE of rank 1 is the difference of the group means, as `MeanDifference` is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, eigsh

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.labelled import LabelledRows, require_rank
from countergen_edit.erasers.methods.mean_difference import span_of_means
from countergen_edit.erasers.solvers.cvxpy_reference import (
    fantope_by_eigenvalues_cvxpy,
    fit_probe_cvxpy,
)
from countergen_edit.erasers.solvers.fantope import fantope_projection
from countergen_edit.erasers.solvers.logistic import Probe, fit_probe, span_coordinates
from countergen_edit.erasers.solvers.minimax import Board, play
from countergen_edit.errors import UserError, unknown
from countergen_edit.seeds import generator

SOLVERS = ("auto", "closed_form", "minimax", "cvxpy")


class RLACE(BaseEraser):
    """Erase the orthogonal projection that wins the game; mean: balanced over the groups.

    For rows that memory does not hold: at rank c - 1 the closed form is `MeanDifference`, which has
    `partial_fit`. The game, and dimensions beyond c - 1, need the rows themselves.

    Args:
        rank: k, dimensions to erase.
        solver: "closed_form" (k ≥ c - 1 only); "minimax", the game itself, as published; "cvxpy",
            the same game with every subproblem stated in cvxpy, half a second each for 1400 rows
            of 128; "auto" takes the closed form where it is optimal, k ≥ c - 1. Beyond c - 1 the
            game is won, and the closed form spends further dimensions on the directions in which
            the class covariances differ most, which a non-linear probe would use first.
        start: where the game begins: "class_means" (the leading directions of their span) or
            "random".
        penalty: of the game's adversary in the end, for rows scaled to E‖x - E x‖² = 1. The game of
            the paper has none, in which an adversary may grow without bound: with 1e-3 the
            direction is that of the penalised game. Played on, at 1e-6, it left an unpenalised
            adversary up to 0.0005 nats more on four sets of three classes, for 2 to 11 times the
            work; on a harder one the best of many starts left 3 % more. The closed form, which
            "auto" takes for k ≥ c - 1, knows no penalty.
        tol: gap in nats at which the game stops; its adversary is solved far closer than that.
        max_iter: steps of P at most, for each of the game's four penalties.
        random_state: seed of a random start.

    Attributes:
        n_iter_: steps of the game; 1 for the closed form.
        remark_: that it is the closed form, where it is.
        relaxed_loss_: value of the game at the relaxed optimum, in nats (game solvers only).
        rounded_loss_: value at the projection of rank k it is rounded to (game solvers only).
        gap_: bound on what is to be gained, in nats (game solvers only).

    >>> X = np.random.default_rng(0).normal(size=(80, 6))
    >>> eraser = RLACE(rank=1).fit(X, X[:, 0] > 0)
    >>> eraser.certificate(X, X[:, 0] > 0).guaranteed
    True
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {"sample_weight": True}

    def __init__(
        self,
        rank: int = 1,
        *,
        solver: str = "auto",
        start: str = "class_means",
        penalty: float = 1e-3,
        tol: float = 1e-4,
        max_iter: int = 200,
        random_state: int = 0,
    ) -> None:
        self.rank = rank
        self.solver = solver
        self.start = start
        self.penalty = penalty
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def check(self) -> None:
        """Refuse a rank that is none, and a solver or start that there is not.

        Raises:
            UserError: naming the setting.
        """
        super().check()
        if self.solver not in SOLVERS:
            raise unknown("solver of rlace", self.solver, SOLVERS)
        if self.start not in ("class_means", "random"):
            raise unknown("start of rlace", self.start, ("class_means", "random"))

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> RLACE:
        """Fit to rows `X` `[row, d]`, classes `y` and, optionally, a weight per row.

        Raises:
            UserError: bad rows or labels, `rank` not in 1 … d - 1, no such solver or start, or
                "closed_form" for a rank below c - 1.
        """
        self.check()
        rows = self._read(X, y, sample_weight)
        require_rank(self.rank, rows.X.shape[1])
        span = span_of_means(rows.class_means)
        optimal = self.rank >= len(span)
        if self.solver == "closed_form" and not optimal:
            raise UserError(
                f"rank = {self.rank} is below the {len(span)} directions in which the class means "
                "differ, and has no closed form: use solver='auto', or a higher rank"
            )
        if self.solver == "closed_form" or (self.solver == "auto" and optimal):
            self.n_iter_ = 1
            self.remark_ = _closed_form(self.rank, len(span), len(rows.classes))
            directions = np.vstack([span, _padding(rows, span, self.rank - len(span))])
        else:
            self.remark_ = ""
            directions = self._played(rows, span)
        self._store(AffineErasure.orthogonal(directions, rows.balanced_mean), rows.classes)
        return self

    def _played(
        self, rows: LabelledRows, span: Float[np.ndarray, "s d"]
    ) -> Float[np.ndarray, "k d"]:
        centred = rows.X - rows.mean
        scale = np.sqrt(float(np.average((centred**2).sum(axis=1), weights=rows.weight))) or 1.0
        coordinates, basis = span_coordinates(centred / scale)
        if basis is None:
            basis = np.eye(rows.X.shape[1])
        inside = replace(rows, X=coordinates)
        board = Board(
            inside,
            min(self.rank, basis.shape[1] - 1),
            fit_probe_cvxpy if self.solver == "cvxpy" else self._adversary,
            fantope_by_eigenvalues_cvxpy if self.solver == "cvxpy" else fantope_projection,
        )
        start = self._first(span, basis)
        game = play(board, start, penalty=self.penalty, tol=self.tol, max_iter=self.max_iter)
        self.n_iter_ = game.n_iter
        self.relaxed_loss_, self.rounded_loss_ = game.relaxed_loss, game.rounded_loss
        self.gap_ = game.gap
        return np.asarray(game.directions @ basis.T)

    def _adversary(self, rows: LabelledRows, penalty: float, warm: Probe | None) -> Probe:
        return fit_probe(rows, penalty=penalty, start=warm, tol=1e-5 * self.tol)

    def _first(
        self, span: Float[np.ndarray, "s d"], basis: Float[np.ndarray, "d r"]
    ) -> Float[np.ndarray, "r r"]:
        k = min(self.rank, basis.shape[1] - 1)
        draw = generator(self.random_state, "rlace", basis.shape[0]).normal(
            size=(basis.shape[0], k)
        )
        if self.start == "class_means":
            leading = span[:k].T
            draw = np.hstack([leading, draw[:, leading.shape[1] :]])
        frame, _ = np.linalg.qr(basis.T @ draw)
        return np.asarray(frame @ frame.T)


def _closed_form(rank: int, spanned: int, classes: int) -> str:
    more = "" if rank == spanned else ", and beyond it the axes on which class covariances differ"
    return (
        f"for {classes} groups and rank {rank} the published game has a closed form, the "
        f"difference of the group means, as mean_difference erases it{more}; solver=minimax plays "
        "the game"
    )


def _padding(
    rows: LabelledRows, span: Float[np.ndarray, "s d"], k: int
) -> Float[np.ndarray, "k d"]:
    """Leading eigenvectors, outside `span`, of Σ_g (Σ_g - Σ̄)²: how the class covariances differ."""
    d = rows.X.shape[1]
    if k == 0:
        return np.zeros((0, d))
    shares = rows.mass / rows.mass.sum()
    within = rows.X - rows.class_means[rows.codes]
    members = [within[rows.codes == g] for g in range(len(shares))]
    weights = [rows.weight[rows.codes == g] / rows.mass[g] for g in range(len(shares))]

    def covary(g: int, v: np.ndarray) -> np.ndarray:
        return np.asarray(members[g].T @ (weights[g] * (members[g] @ v)))

    def apply(v: np.ndarray) -> np.ndarray:
        v = _outside(v.ravel(), span)
        each = [covary(g, v) for g in range(len(shares))]
        pooled = shares @ np.stack(each)
        total: np.ndarray = np.stack([covary(g, v - pooled) for g, v in enumerate(each)]).sum(
            axis=0
        )
        return _outside(total, span)

    first = generator(0, "rlace padding", d).normal(size=(d,))
    operator: Any = LinearOperator((d, d), matvec=apply, dtype=np.float64)
    solve: Any = eigsh  # scipy's stubs know no such operator
    _, vectors = solve(operator, k=k, which="LA", v0=_outside(first, span))
    frame, _ = np.linalg.qr(_outside(vectors[:, ::-1], span))
    return np.asarray(frame.T)


def _outside(
    vectors: Float[np.ndarray, "d ..."], span: Float[np.ndarray, "s d"]
) -> Float[np.ndarray, "d ..."]:
    """Vectors, or columns of them, with their part in the rows of `span` taken off."""
    return np.asarray(vectors - span.T @ (span @ vectors))
