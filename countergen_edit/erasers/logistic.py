"""The adversary: the best logistic probe, solved to tolerance.

    min over W, b of  Σ_i ω_i [ logsumexp(s_i) - s_i[z_i] ] + penalty/2 ‖W‖²,   s_i = W'x_i + b

with Σ ω_i = 1, and one logit column for two classes. Solved by L-BFGS in the coordinates that
whiten Böhning's bound on the Hessian (1992): for all W, H ⪯ κ Σ ω x xᵀ + penalty, with κ = 1/4 for
two classes and 1/2 for more. The number of steps then hardly depends on how the features are
scaled, which is what makes activations slow to fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from countergen_edit.erasers.labelled import LabelledRows


@dataclass(frozen=True)
class Probe:
    """A fitted logistic probe; `loss` is its data loss in nats, without the penalty."""

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
    """H(z) in nats: the loss of the best constant predictor, and the upper bound of the game."""
    p = rows.mass / rows.mass.sum()
    return float(-(p * np.log(p)).sum())


def fit_probe(
    rows: LabelledRows,
    *,
    penalty: float = 0.0,
    tol: float = 1e-6,
    max_iter: int = 300,
    start: Probe | None = None,
) -> Probe:
    """Fit the probe, from `start` or else from the constant predictor.

    Args:
        rows: the data; where all class means coincide, the answer is the constant predictor.
        penalty: weight of ‖W‖²/2 beside a loss that is a mean over rows. 0 is the adversary of the
            certificate; where the classes are separable its loss then tends to 0.
        tol: bound on the largest entry of the gradient, in the whitened coordinates. Its square
            bounds the relative fall of the objective, below which rounding hides any progress.
        max_iter: L-BFGS steps.
        start: a probe of the same shape to begin from.
    """
    return WhitenedRows(rows, penalty).fit_probe(tol=tol, max_iter=max_iter, start=start)


class WhitenedRows:
    """Rows whitened once, in which probes are fitted with more and more directions removed.

    With A = κ Σ ω x xᵀ + penalty I = L Lᵀ and W = L⁻ᵀ U, the penalty needs no W:
    penalty ‖W‖² = ‖U‖² - κ Σ ω ‖xᵀW‖². And since A bounds the Hessian on every subspace, it serves
    for the projected rows of every round of INLP: a step costs two products with the rows.

    Args:
        rows: the data.
        penalty: as in `fit_probe`.
    """

    def __init__(self, rows: LabelledRows, penalty: float) -> None:
        self.rows = rows
        self.centre = rows.mean
        self.X, self.basis = span_coordinates(rows.X - self.centre)
        self.omega = rows.weight / rows.weight.sum()
        c = len(rows.classes)
        self.m = 1 if c == 2 else c
        self.kappa = 0.25 if c == 2 else 0.5
        A = self.kappa * ((self.X.T * self.omega) @ self.X)
        # Directions without variance would leave A singular; this much penalty changes nothing.
        floor = max(float(np.trace(A)) / max(len(A), 1), 1e-300) * 1e-9
        A.flat[:: len(A) + 1] += penalty + floor
        self.factor = cholesky(A, lower=True, overwrite_a=True, check_finite=False)
        self.whitened = np.ascontiguousarray(
            solve_triangular(self.factor, self.X.T, lower=True, check_finite=False).T
        )

    def fit_probe(
        self,
        *,
        tol: float,
        max_iter: int,
        start: Probe | None = None,
        removed: Float[np.ndarray, "k r"] | None = None,
    ) -> Probe:
        """Fit the probe to the rows with the orthonormal directions `removed` projected out.

        `removed` is in the coordinates of the span; so is the rest of the arithmetic here.
        """
        m, codes = self.m, self.rows.codes
        each, target = np.arange(len(codes)), np.eye(len(self.rows.classes))[codes]
        if removed is None:
            removed = np.zeros((0, self.X.shape[1]))
        parts = self.X @ removed.T
        reads = solve_triangular(self.factor, removed.T, lower=True, check_finite=False)

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            U = flat[m:].reshape(-1, m)
            whole = self.whitened @ U
            logits = _all_logits(whole - parts @ (reads.T @ U) + flat[:m])
            top = logits.max(axis=1)
            odds = np.exp(logits - top[:, None])
            total = odds.sum(axis=1)
            loss = self.omega @ (top + np.log(total) - logits[each, codes])
            residual = (odds / total[:, None] - target)[:, -m:] * self.omega[:, None]
            weighed = self.kappa * self.omega[:, None] * whole
            penalty = 0.5 * ((U * U).sum() - (weighed * whole).sum())
            slope = U + self.whitened.T @ (residual - weighed) - reads @ (parts.T @ residual)
            return float(loss + penalty), np.concatenate([residual.sum(axis=0), slope.ravel()])

        found = minimize(
            objective,
            self._flat(start),
            jac=True,
            method="L-BFGS-B",
            options={
                "gtol": tol,
                "ftol": max(tol**2, 1e-15),
                "maxiter": max_iter,
                "maxcor": 20,
            },
        )
        W = solve_triangular(self.factor, found.x[m:].reshape(-1, m), lower=True, trans="T")
        W = W - removed.T @ (removed @ W)
        scores = _all_logits(self.X @ W + found.x[:m])
        loss = float(self.omega @ (logsumexp(scores, axis=1) - scores[each, codes]))
        weights = W if self.basis is None else self.basis @ W
        intercept = found.x[:m] - self.centre @ weights
        return Probe(np.asarray(weights), intercept, loss, max(int(found.nit), 1))

    def _flat(self, start: Probe | None) -> Float[np.ndarray, " p"]:
        if start is None:
            prior = np.log(self.rows.mass / self.rows.mass.sum())
            offset = prior[1:] - prior[0] if self.m == 1 else prior
            return np.concatenate([offset, np.zeros(self.X.shape[1] * self.m)])
        inside = start.weights if self.basis is None else self.basis.T @ start.weights
        offset = start.intercept + self.centre @ start.weights
        return np.concatenate([offset, (self.factor.T @ inside).ravel()])


def span_coordinates(
    X: Float[np.ndarray, "row d"],
) -> tuple[Float[np.ndarray, "row r"], Float[np.ndarray, "d r"] | None]:
    """Rows in an orthonormal basis of their own span where that is smaller than d.

    Nothing outside the span of the data can help or hinder a probe, and QR keeps every inner
    product to rounding, which the square of a Gram matrix would not.
    """
    if X.shape[0] >= X.shape[1]:
        return X, None
    basis, triangle = np.linalg.qr(X.T)
    return triangle.T, basis


def _all_logits(scores: Float[np.ndarray, "row m"]) -> Float[np.ndarray, "row c"]:
    return np.hstack([np.zeros_like(scores), scores]) if scores.shape[1] == 1 else scores
