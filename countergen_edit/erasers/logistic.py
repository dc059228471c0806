"""The best logistic probe, solved to tolerance.

    min over W, b of  Σ_i ω_i [ logsumexp(s_i) - s_i[z_i] ] + penalty/2 ‖W‖²,   s_i = W'x_i + b

with Σ ω_i = 1, and one logit column for two classes. Solved by L-BFGS in coordinates whitened by

    A = Σ_i ω_i h_i [1; x_i] [1; x_i]ᵀ + penalty I,   h_i = ½ Σ_c p_ic (1 - p_ic),

which is updated after some steps and when the curvature has halved; for two classes it is the
Hessian. So the number of steps hardly depends on the scales of features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import softmax

from countergen_edit.erasers.labelled import LabelledRows
from countergen_edit.erasers.numerics import span_coordinates

INNER = 20
"""L-BFGS steps between two updates of A."""


@dataclass(frozen=True)
class Probe:
    """A fitted logistic probe; `loss` is its log loss in nats, without the penalty."""

    weights: Float[np.ndarray, "d m"]
    intercept: Float[np.ndarray, " m"]
    loss: float
    n_iter: int

    def probabilities(self, X: Float[np.ndarray, "row d"]) -> Float[np.ndarray, "row c"]:
        """The probability of each class in each row."""
        return np.asarray(softmax(_all_logits(X @ self.weights + self.intercept), axis=1))

    def predict(self, X: Float[np.ndarray, "row d"]) -> Int[np.ndarray, " row"]:
        """The most probable class code of each row."""
        return np.asarray(_all_logits(X @ self.weights + self.intercept).argmax(axis=1))


def label_entropy(rows: LabelledRows) -> float:
    """H(z) in nats: the loss of the best constant predictor."""
    p = rows.sizes / len(rows.X)
    return float(-(p * np.log(p)).sum())


def fit_probe(
    rows: LabelledRows,
    penalty: float = 0.0,
    start: Probe | None = None,
    *,
    tol: float = 1e-6,
    max_iter: int = 300,
) -> Probe:
    """Fit a logistic probe, from `start` or the constant predictor.

    `penalty` weighs ‖W‖²/2 against the mean loss; `tol` bounds the largest entry of the gradient in
    whitened coordinates; `max_iter` counts L-BFGS steps.
    """
    return ProbeRows(rows, penalty).fit_probe(tol, max_iter, start)


class ProbeRows:
    """Rows in coordinates of their span, to which probes are fitted one after the other."""

    def __init__(self, rows: LabelledRows, penalty: float) -> None:
        self.rows = rows
        self.penalty = penalty
        self.centre = rows.mean
        self.X, self.basis = span_coordinates(rows.X - self.centre)
        self.omega = np.full(len(rows.X), 1.0 / len(rows.X))
        self.target = np.eye(len(rows.classes))[rows.codes]
        self.m = 1 if len(rows.classes) == 2 else len(rows.classes)
        self._first: tuple[np.ndarray, float] | None = None

    def fit_probe(self, tol: float, max_iter: int, start: Probe | None = None) -> Probe:
        """Fit a probe to the rows as they are now; arguments as in `fit_probe`."""
        b, W = self._start(start)
        # Every probe that begins at the constant one may use its A: projecting only shrinks A.
        factor, curvature = (self._first if start is None else None) or self._metric(b, W)
        if start is None:
            self._first = factor, curvature
        steps = 0
        while steps < max_iter:
            optimum = minimize(
                self._objective,
                (factor.T @ np.vstack([b, W])).ravel(),
                args=(factor,),
                jac=True,
                method="L-BFGS-B",
                options={"gtol": tol, "ftol": 1e-15, "maxiter": min(INNER, max_iter - steps)},
            )
            steps += int(optimum.nit)
            b, W = self._unwhiten(optimum.x, factor)
            holds = self._curvature(b, W).sum() > 0.5 * curvature
            if holds and (optimum.nit == 0 or np.abs(optimum.jac).max() <= tol):
                break
            factor, curvature = self._metric(b, W)
        p = softmax(_all_logits(self.X @ W + b), axis=1)
        loss = -float(self.omega @ np.log(p[np.arange(len(p)), self.rows.codes]))
        weights = W if self.basis is None else self.basis @ W
        return Probe(np.asarray(weights), b - self.centre @ weights, loss, max(steps, 1))

    def _objective(self, flat: np.ndarray, factor: np.ndarray) -> tuple[float, np.ndarray]:
        b, W = self._unwhiten(flat, factor)
        logits = _all_logits(self.X @ W + b)
        logits -= logits.max(axis=1, keepdims=True)
        odds = np.exp(logits)
        total = odds.sum(axis=1)
        loss = self.omega @ (np.log(total) - (logits * self.target).sum(axis=1))
        residual = (odds / total[:, None] - self.target)[:, -self.m :] * self.omega[:, None]
        slope = np.vstack([residual.sum(axis=0), self.X.T @ residual + self.penalty * W])
        return float(loss + 0.5 * self.penalty * (W * W).sum()), solve_triangular(
            factor, slope, lower=True, check_finite=False
        ).ravel()

    def _curvature(self, b: np.ndarray, W: np.ndarray) -> Float[np.ndarray, " row"]:
        """ω_i h_i at a probe."""
        p = softmax(_all_logits(self.X @ W + b), axis=1)
        return np.asarray(self.omega * 0.5 * (p * (1 - p)).sum(axis=1))

    def _metric(self, b: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, float]:
        """The Cholesky factor of A at a probe, and Σ ω h there."""
        h = self._curvature(b, W)
        root = np.sqrt(h)[:, None]
        Z = np.hstack([root, self.X * root])
        A = Z.T @ Z
        # Where the classes are all but separated A nearly vanishes, and so it does in directions
        # without variance: a small diagonal keeps steps finite and changes no optimum.
        A.flat[:: len(A) + 1] += max(float(np.trace(A)) * 1e-12, 1e-12)
        A[range(1, len(A)), range(1, len(A))] += self.penalty
        factor = cholesky(A, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(factor), float(h.sum())

    def _unwhiten(self, flat: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        U = flat.reshape(-1, self.m)
        both = solve_triangular(factor, U, lower=True, trans="T", check_finite=False)
        return both[0], both[1:]

    def _start(self, start: Probe | None) -> tuple[np.ndarray, np.ndarray]:
        if start is None:
            prior = np.log(self.rows.sizes / len(self.rows.X))
            offset = prior[1:] - prior[0] if self.m == 1 else prior
            return offset, np.zeros((self.X.shape[1], self.m))
        inside = start.weights if self.basis is None else self.basis.T @ start.weights
        return start.intercept + self.centre @ start.weights, inside


def _all_logits(scores: Float[np.ndarray, "row m"]) -> Float[np.ndarray, "row c"]:
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores
