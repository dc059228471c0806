"""The best logistic probe, solved to tolerance.

    min over W, b of  Σ_i ω_i [ logsumexp(s_i) - s_i[z_i] ] + penalty/2 ‖W‖²,   s_i = W'x_i + b

with Σ ω_i = 1, and one logit column for two classes. Solved by Newton's method. A step is found by
conjugate gradients, preconditioned by the Cholesky factor of

    A = Σ_i ω_i h_i [1; x_i] [1; x_i]ᵀ + penalty I,   h_i = ½ Σ_c p_ic (1 - p_ic),

the Hessian of two classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_solve, cholesky
from scipy.special import softmax

from countergen_edit.erasers.labelled import LabelledRows
from countergen_edit.erasers.numerics import span_coordinates

_Factor = Float[np.ndarray, "r r"]
_Coefficients = Float[np.ndarray, "r m"]
_Logits = Float[np.ndarray, "row m"]
_Probabilities = Float[np.ndarray, "row c"]
_MANY = 10
"""Iterations of a step after which A is computed anew."""
_MOST = 200
"""Iterations of a step at most."""
_LEAST = 1e-30
"""A squared decrement that is rounding, nats."""


@dataclass(frozen=True)
class Probe:
    """A fitted logistic probe; `loss` is its log loss in nats, without the penalty."""

    weights: Float[np.ndarray, "d m"]
    intercept: Float[np.ndarray, " m"]
    loss: float
    n_iter: int

    def probabilities(self, X: Float[np.ndarray, "row d"]) -> _Probabilities:
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
    weights: Float[np.ndarray, " row"] | None = None,
    tol: float = 1e-5,
    max_iter: int = 100,
) -> Probe:
    """Fit a logistic probe, from `start` or the constant predictor.

    `penalty` weighs ‖W‖²/2 against the mean loss, over rows of equal `weights` by default. The fit
    ends after `max_iter` Newton steps, or one with a decrement δ ≤ `tol`, a gain of δ²/2 nats.
    """
    return ProbeRows(rows, penalty, weights).fit_probe(tol, max_iter, start)


class ProbeRows:
    """Rows in coordinates of their span, to which probes are fitted in turn."""

    def __init__(
        self, rows: LabelledRows, penalty: float, weights: Float[np.ndarray, " row"] | None = None
    ) -> None:
        self.rows = rows
        self.centre = rows.mean
        X, self.basis = span_coordinates(rows.X - self.centre)
        self.Z = np.hstack([np.ones((len(X), 1)), X])
        # Directions that hold nothing but rounding must not tell the classes apart.
        least = 1e-12 * float((X**2).sum()) / len(X)
        self.ridge = np.full((self.Z.shape[1], 1), max(penalty, least))
        self.ridge[0] = 0.0
        omega = np.ones(len(X)) if weights is None else weights
        self.omega = (omega / omega.sum())[:, None]
        self.target = np.eye(len(rows.classes))[rows.codes]
        self.m = 1 if len(rows.classes) == 2 else len(rows.classes)
        self._first: np.ndarray | None = None

    def project(self, directions: Float[np.ndarray, "k r"]) -> None:
        """Project the rows onto the complement of orthonormal directions."""
        inside = np.hstack([np.zeros((len(directions), 1)), directions])
        self.Z -= (self.Z @ inside.T) @ inside
        if self._first is not None:
            half = self._first - (self._first @ inside.T) @ inside
            self._first = half - inside.T @ (inside @ half)

    def fit_probe(self, tol: float, max_iter: int, start: Probe | None = None) -> Probe:
        """Fit a probe to the rows as they are now; arguments as in `fit_probe`."""
        theta = self._start(start)
        logits = self.Z @ theta
        n_iter, decrement, iterations = 0, np.inf, _MOST
        while n_iter < max_iter and decrement > tol:
            n_iter += 1
            p = softmax(_all_logits(logits), axis=1)
            if start is None and n_iter == 1:  # at the constant probe A is that of earlier rows
                self._first = self._curvature(p) if self._first is None else self._first
                factor = self._factor(self._first)
            elif iterations > _MANY:
                factor = self._factor(self._curvature(p))
            slope = self.Z.T @ self._residual(p) + self.ridge * theta
            step, change, iterations = self._newton_step(factor, p, slope)
            gain = -float((slope * step).sum())
            length = 1.0
            for _ in range(_MOST):  # until the loss no longer rises much along the step
                ahead = self._residual(softmax(_all_logits(logits + length * change), axis=1))
                rise = float((ahead * change).sum())
                rise += float((self.ridge * (theta + length * step) * step).sum())
                if rise <= 0.5 * gain:
                    break
                length *= gain / (gain + rise)
            theta, logits = theta + length * step, logits + length * change
            decrement = np.sqrt(max(gain, 0.0))
        p = softmax(_all_logits(logits), axis=1)
        loss = -float(self.omega[:, 0] @ np.log(p[np.arange(len(p)), self.rows.codes]))
        W = theta[1:] if self.basis is None else self.basis @ theta[1:]
        return Probe(np.asarray(W), theta[0] - self.centre @ W, loss, n_iter)

    def _newton_step(
        self,
        factor: _Factor,
        p: _Probabilities,
        slope: _Coefficients,
    ) -> tuple[_Coefficients, _Logits, int]:
        """-H⁻¹ slope, the change of logits along it, and the number of iterations."""
        p = p[:, -self.m :]
        step, change = np.zeros_like(slope), np.zeros(p.shape)
        left = -slope
        way = solved = self._whitened(factor, left)
        size = float((left * solved).sum())
        # Ever more digits keep the convergence quadratic.
        goal = size * min(0.01, max(size, 1e-12))
        for iterations in range(_MOST):
            if size <= max(goal, _LEAST):
                return step, change, iterations
            along = self.Z @ way
            bent = along - (p * along).sum(axis=1, keepdims=True)
            bent = self.Z.T @ (self.omega * p * bent) + self.ridge * way
            share = size / float((way * bent).sum())
            step, change, left = step + share * way, change + share * along, left - share * bent
            solved = self._whitened(factor, left)
            size, last = float((left * solved).sum()), size
            way = solved + size / last * way
        return step, change, _MOST

    def _whitened(self, factor: _Factor, left: _Coefficients) -> _Coefficients:
        """A⁻¹ left without the part that all classes share, on which no loss depends."""
        solved = cho_solve((factor, True), left, check_finite=False)
        return np.asarray(solved - solved.mean(axis=1, keepdims=True) * (self.m > 1))

    def _residual(self, p: _Probabilities) -> _Logits:
        """Derivative of the loss by the logits."""
        return np.asarray((self.omega * (p - self.target))[:, -self.m :])

    def _curvature(self, p: _Probabilities) -> _Factor:
        """A without the penalty."""
        rooted = self.Z * np.sqrt(0.5 * self.omega * (p * (1 - p)).sum(axis=1, keepdims=True))
        return np.asarray(rooted.T @ rooted)

    def _factor(self, curvature: _Factor) -> _Factor:
        """The Cholesky factor of A."""
        A = curvature.copy()
        A.flat[:: len(A) + 1] += self.ridge[:, 0]
        A[0, 0] += 1e-12  # where the classes are all but separated
        return np.asarray(cholesky(A, lower=True, overwrite_a=True, check_finite=False))

    def _start(self, start: Probe | None) -> _Coefficients:
        if start is None:
            prior = np.log(self.rows.sizes / len(self.rows.X))
            offset = prior[1:] - prior[0] if self.m == 1 else prior
            return np.vstack([offset, np.zeros((self.Z.shape[1] - 1, self.m))])
        inside = start.weights if self.basis is None else self.basis.T @ start.weights
        return np.vstack([start.intercept + self.centre @ start.weights, inside])


def _all_logits(scores: _Logits) -> _Probabilities:
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores
