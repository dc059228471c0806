"""The Fantope F_k = { P : 0 ⪯ P ⪯ I, tr P = k }: the convex hull of the projections of rank k.

Its Euclidean projection keeps the eigenvectors and clips the eigenvalues (Vu et al.,
NeurIPS 2013, Lemma 4.1):

    Π(M) = Σ_i min(max(λ_i - θ, 0), 1) u_i u_iᵀ,   θ such that the trace is k
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def fantope_projection(M: Float[np.ndarray, "r r"], k: int) -> Float[np.ndarray, "r r"]:
    """The point of F_k nearest to the symmetric matrix `M`; k ≤ r.

    >>> fantope_projection(np.diag([3.0, 1.0, 0.9]), 2).round(3).diagonal().tolist()
    [1.0, 0.55, 0.45]
    """
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    return np.asarray((vectors * _capped_simplex(values, k)) @ vectors.T)


def leading_directions(P: Float[np.ndarray, "r r"], k: int) -> Float[np.ndarray, "k r"]:
    """The top-k eigenvectors of `P` as orthonormal rows: the nearest projection of rank k."""
    _, vectors = np.linalg.eigh((P + P.T) / 2)
    return np.asarray(vectors[:, ::-1][:, :k].T)


def _capped_simplex(values: Float[np.ndarray, " r"], k: int) -> Float[np.ndarray, " r"]:
    # The trace is piecewise linear and falls in θ, with its corners where a value enters or leaves
    # [0, 1]: interpolating between the corners is exact.
    corners = np.sort(np.concatenate([values, values - 1.0]))
    traces = np.clip(values[None, :] - corners[:, None], 0.0, 1.0).sum(axis=1)
    theta = np.interp(-float(k), -traces, corners)
    return np.asarray(np.clip(values - theta, 0.0, 1.0))
