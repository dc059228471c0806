"""The convex problems of this room as the papers state them, for cvxpy.

Comes in: plain arrays. Goes out: optima. Refused: demands that cannot be met together.

The Fantope projection and the adversary of RLACE, and the preserving problem, are oracles: nothing
in them is fast or clever, and that is the point of them. Two have a thin twin of the same optimum,
for sizes at which erasers are fitted: `fantope_by_eigenvalues_cvxpy` leaves the eigenvectors to
NumPy, and `keeping_within_cvxpy`, whose problem has no closed form, asks for the unknown part only.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float

from countergen_edit.erasers.labelled import LabelledRows
from countergen_edit.erasers.solvers.logistic import Probe
from countergen_edit.erasers.svd import thin_svd
from countergen_edit.errors import UserError


def fantope_projection_cvxpy(M: Float[np.ndarray, "r r"], k: int) -> Float[np.ndarray, "r r"]:
    """min ‖P - M‖_F over P with 0 ⪯ P ⪯ I and tr P = k."""
    cp: Any = import_module("cvxpy")  # slow to import, and seldom wanted

    P = cp.Variable(M.shape, symmetric=True)
    inside = [P >> 0, cp.Constant(np.eye(len(M))) - P >> 0, cp.trace(P) == k]
    return np.asarray(_solved(cp.Problem(cp.Minimize(cp.sum_squares(P - M)), inside), P))


def fantope_by_eigenvalues_cvxpy(M: Float[np.ndarray, "r r"], k: int) -> Float[np.ndarray, "r r"]:
    """The same projection as a quadratic programme in r numbers instead of r² and two cones.

    The nearest P has the eigenvectors of M (Vu et al., NeurIPS 2013, Lemma 4.1), which leaves
    min ‖γ - λ‖ over eigenvalues γ with 0 ≤ γ ≤ 1 and Σ γ = k.
    """
    cp: Any = import_module("cvxpy")  # slow to import, and seldom wanted

    values, vectors = np.linalg.eigh((M + M.T) / 2)
    gamma = cp.Variable(len(M))
    inside = [gamma >= 0, gamma <= 1, cp.sum(gamma) == k]
    nearest = _solved(cp.Problem(cp.Minimize(cp.sum_squares(gamma - values)), inside), gamma)
    return np.asarray((vectors * nearest) @ vectors.T)


def fit_probe_cvxpy(rows: LabelledRows, penalty: float, start: Probe | None = None) -> Probe:
    """min Σ ω (logsumexp(s) - s[z]) + penalty/2 ‖W‖², with one logit column for two classes.

    `start` is taken, and not used, so that this may stand where `fit_probe` does.
    """
    cp: Any = import_module("cvxpy")  # slow to import, and seldom wanted

    n, c = len(rows.X), len(rows.classes)
    m = 1 if c == 2 else c
    omega = rows.weight / rows.weight.sum()
    W, b = cp.Variable((rows.X.shape[1], m)), cp.Variable((1, m))
    scores = rows.X @ W + np.ones((n, 1)) @ b
    logits = cp.hstack([np.zeros((n, 1)), scores]) if m == 1 else scores
    own = cp.sum(cp.multiply(np.eye(c)[rows.codes], logits), axis=1)
    loss = omega @ (cp.log_sum_exp(logits, axis=1) - own)
    problem = cp.Problem(cp.Minimize(loss + penalty / 2 * cp.sum_squares(W)))
    weights = np.asarray(_solved(problem, W))
    return Probe(weights, np.asarray(b.value)[0], float(loss.value), 1)


def preserving_cvxpy(
    A: Float[np.ndarray, "r a"],
    B: Float[np.ndarray, "r b"],
    scale: Float[np.ndarray, " r"] | None = None,
    keep_within: float = 0.0,
) -> Float[np.ndarray, "r r"]:
    """min E‖M x‖² over M with M A = A and ‖M b‖ ≤ keep_within ‖b‖ for the columns b of B.

    Args:
        A: what P = I - M sends to zero.
        B: what P leaves as it is.
        scale: standard deviations of the coordinates of x, which are uncorrelated; 1 by default.
        keep_within: 0 keeps B exactly.

    Raises:
        UserError: the demands cannot be met together.
    """
    cp: Any = import_module("cvxpy")  # slow to import, and seldom wanted

    M = cp.Variable((len(A), len(A)))
    demands: list[Any] = [M @ A == A]
    if keep_within == 0:
        demands += [M @ B == 0] if B.shape[1] else []
    else:
        demands += [cp.norm(M @ b) <= keep_within * float(np.linalg.norm(b)) for b in B.T]
    spread = np.eye(len(A)) if scale is None else np.diag(scale)
    return np.asarray(_solved(cp.Problem(cp.Minimize(cp.sum_squares(M @ spread)), demands), M))


def keeping_within_cvxpy(
    A: Float[np.ndarray, "r a"], B: Float[np.ndarray, "r b"], keep_within: float
) -> Float[np.ndarray, "a r"]:
    """L of the optimal M = A L of `preserving_cvxpy`, for A with orthonormal columns and no scale.

    An optimal M writes only the span of A, and reads that of A and B: L = Aᵀ + N Qᵀ, with Q an
    orthonormal basis of what B has outside A. M A = A then holds by itself, ‖L‖² = a + ‖N‖², and N
    has a · b numbers at most where M has r². Of b and -b, as two groups give them, one is enough.

    Args:
        A: what P = I - M sends to zero.
        B: what P is to leave as it is, up to `keep_within`, above 0, of its length.
        keep_within: ‖L b‖ ≤ keep_within ‖b‖ for the columns b of B.

    Raises:
        UserError: the demands cannot be met together.
    """
    cp: Any = import_module("cvxpy")  # slow to import, and seldom wanted

    length = np.linalg.norm(B, axis=0)
    B = B[:, length > 0] / length[length > 0]
    alike = np.triu(np.abs(B.T @ B) > 1 - 1e-12, 1).any(axis=0)
    B = B[:, ~alike]
    axes, size, _ = thin_svd(B - A @ (A.T @ B))
    Q = axes[:, size > 1e-10]
    if not Q.shape[1]:
        if B.size and np.linalg.norm(A.T @ B, axis=0).max() > keep_within:
            raise UserError(
                f"what is to be kept within {keep_within} lies in what is to be erased: keep fewer "
                "contexts, or allow more"
            )
        return np.asarray(A.T)
    N = cp.Variable((A.shape[1], Q.shape[1]))
    moved = A.T @ B + N @ (Q.T @ B)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(N)), [cp.norm(moved, 2, axis=0) <= keep_within])
    return np.asarray(A.T + _solved(problem, N) @ Q.T)


def _solved(problem: Any, variable: Any) -> Any:
    problem.solve(solver="CLARABEL")
    if variable.value is None:
        raise UserError(
            f"cvxpy found the demands {problem.status}: ask for less, or allow what is kept to move"
        )
    return variable.value
