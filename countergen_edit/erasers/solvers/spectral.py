"""Singular values and the Fantope, F_k = { P : 0 ⪯ P ⪯ I, tr P = k }."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from jaxtyping import Float


def thin_svd(
    matrix: Float[np.ndarray, "m n"],
) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, " k"], Float[np.ndarray, "k n"]]:
    """Thin SVD U, s, Vᵀ, largest first; by gesvd where gesdd does not converge."""
    try:
        left, size, right = np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        left, size, right = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return left, size, right


def fix_signs(rows: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "k d"]:
    """Make the largest entry of each row positive, so that equal data give equal directions."""
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return np.asarray(rows * np.sign(largest)[:, None])


def fantope_projection(M: Float[np.ndarray, "r r"], k: int) -> Float[np.ndarray, "r r"]:
    """Project the symmetric `M` `[r, r]` onto F_k: clip shifted eigenvalues to [0, 1].

    Vu et al. (NeurIPS 2013), Lemma 4.1: Σ_i min(max(λ_i - θ, 0), 1) u_i u_iᵀ with θ such that the
    trace is k.

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
