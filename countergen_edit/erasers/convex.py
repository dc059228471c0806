"""Convex problems solved by cvxpy, which is slow to import and seldom needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float

from countergen_edit.core.errors import UserError
from countergen_edit.erasers.labelled import LabelledRows
from countergen_edit.erasers.logistic import Probe
from countergen_edit.erasers.numerics import Square, thin_svd


def fantope_by_eigenvalues_cvxpy(M: Square, k: int) -> Square:
    """`fantope_projection` as a quadratic programme in the eigenvalues of `M`."""
    cp = import_module("cvxpy")
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    gamma = cp.Variable(len(M))
    inside = [gamma >= 0, gamma <= 1, cp.sum(gamma) == k]
    nearest = _solve(cp.Problem(cp.Minimize(cp.sum_squares(gamma - values)), inside), gamma)
    return np.asarray((vectors * nearest) @ vectors.T)


def fit_probe_cvxpy(rows: LabelledRows, penalty: float, start: Probe | None = None) -> Probe:
    """`fit_probe` by cvxpy; `start` is ignored."""
    cp = import_module("cvxpy")
    n, c = len(rows.X), len(rows.classes)
    m = 1 if c == 2 else c
    W, b = cp.Variable((rows.X.shape[1], m)), cp.Variable((1, m))
    scores = rows.X @ W + np.ones((n, 1)) @ b
    logits = cp.hstack([np.zeros((n, 1)), scores]) if m == 1 else scores
    of_class = cp.sum(cp.multiply(np.eye(c)[rows.codes], logits), axis=1)
    loss = np.full(n, 1.0 / n) @ (cp.log_sum_exp(logits, axis=1) - of_class)
    problem = cp.Problem(cp.Minimize(loss + penalty / 2 * cp.sum_squares(W)))
    weights = np.asarray(_solve(problem, W))
    return Probe(weights, np.asarray(b.value)[0], float(loss.value), 1)


def keeping_within_cvxpy(
    A: Float[np.ndarray, "r a"], B: Float[np.ndarray, "r b"], keep_within: float
) -> Float[np.ndarray, "a r"]:
    """L of the least M = A L with M A = A and ‖M b‖ ≤ keep_within ‖b‖ for the columns b of B.

    A has orthonormal columns. An optimal M reads only the span of A and B: L = Aᵀ + N Qᵀ, where
    Q is an orthonormal basis of the part of B outside A.
    """
    cp = import_module("cvxpy")
    length = np.linalg.norm(B, axis=0)
    B = B[:, length > 0] / length[length > 0]
    alike = np.triu(np.abs(B.T @ B) > 1 - 1e-12, 1).any(axis=0)
    B = B[:, ~alike]
    axes, size, _ = thin_svd(B - A @ (A.T @ B))
    Q = axes[:, size > 1e-10]
    if not Q.shape[1]:
        if B.size and np.linalg.norm(A.T @ B, axis=0).max() > keep_within:
            raise UserError(
                f"a difference to keep within {keep_within} lies in the span to erase: keep fewer "
                "contexts, or allow more"
            )
        return np.asarray(A.T)
    N = cp.Variable((A.shape[1], Q.shape[1]))
    moved = A.T @ B + N @ (Q.T @ B)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(N)), [cp.norm(moved, 2, axis=0) <= keep_within])
    return np.asarray(A.T + _solve(problem, N) @ Q.T)


def _solve(problem: Any, variable: Any) -> Any:
    problem.solve(solver="CLARABEL")
    if variable.value is None:
        raise UserError(
            f"cvxpy found the demands {problem.status}: erase fewer contexts, or raise keep_within"
        )
    return variable.value
