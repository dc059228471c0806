"""The convex problems of this room as the papers state them, for cvxpy: oracles for small sizes.

The Fantope projection and the adversary of RLACE, and the preserving problem. Nothing here is fast,
and nothing here is clever: that is the point of it. The last of them also solves what has no closed
form, things kept up to a tolerance.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float

from countergen_edit.erasers.labelled import LabelledRows
from countergen_edit.erasers.solvers.logistic import Probe
from countergen_edit.errors import UserError


def fantope_projection_cvxpy(M: Float[np.ndarray, "r r"], k: int) -> Float[np.ndarray, "r r"]:
    """min ‖P - M‖_F over P with 0 ⪯ P ⪯ I and tr P = k."""
    cp: Any = import_module("cvxpy")  # slow to import, and seldom wanted

    P = cp.Variable(M.shape, symmetric=True)
    inside = [P >> 0, cp.Constant(np.eye(len(M))) - P >> 0, cp.trace(P) == k]
    return np.asarray(_solved(cp.Problem(cp.Minimize(cp.sum_squares(P - M)), inside), P))


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


def _solved(problem: Any, variable: Any) -> Any:
    problem.solve(solver="CLARABEL")
    if variable.value is None:
        raise UserError(
            f"cvxpy found the demands {problem.status}: ask for less, or allow what is kept to move"
        )
    return variable.value
