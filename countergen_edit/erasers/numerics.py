"""Singular values, the Fantope F_k = { P : 0 ⪯ P ⪯ I, tr P = k }, and threads for small fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import scipy.linalg
import torch
from jaxtyping import Float
from threadpoolctl import threadpool_limits

_T = TypeVar("_T")
Square = Float[np.ndarray, "d d"]
SMALL = 2**24
"""Number of matrix entries up to which one BLAS thread per fit is fastest."""


def thin_svd(
    matrix: Float[np.ndarray, "m n"],
) -> tuple[Float[np.ndarray, "m k"], Float[np.ndarray, " k"], Float[np.ndarray, "k n"]]:
    """Thin SVD U, s, Vᵀ, largest first; by gesvd where gesdd does not converge."""
    try:
        left, size, right = np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        left, size, right = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return left, size, right


def triangular(matrix: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "m k"]:
    """L of M = L Q: at most m columns with the same left singular vectors and values."""
    if matrix.shape[1] <= matrix.shape[0]:
        return matrix
    return np.asarray(np.linalg.qr(matrix.T, mode="r")).T


def fix_signs(rows: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "k d"]:
    """Make the largest entry of each row positive: equal data give equal directions."""
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return np.asarray(rows * np.sign(largest)[:, None])


def span_coordinates(
    X: Float[np.ndarray, "row d"],
) -> tuple[Float[np.ndarray, "row r"], Float[np.ndarray, "d r"] | None]:
    """Rows in an orthonormal basis of their span, and the basis; unchanged if n ≥ d."""
    if X.shape[0] >= X.shape[1]:
        return X, None
    basis, triangle = np.linalg.qr(X.T)
    return triangle.T, basis


def fantope_projection(M: Square, k: int) -> Square:
    """Project the symmetric `M` onto F_k: clip shifted eigenvalues to [0, 1].

    Σ_i min(max(λ_i - θ, 0), 1) u_i u_iᵀ of trace k, by θ (Vu et al., NeurIPS 2013, Lemma 4.1).

    >>> fantope_projection(np.diag([3.0, 1.0, 0.9]), 2).round(3).diagonal().tolist()
    [1.0, 0.55, 0.45]
    """
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    # The trace is piecewise linear and falls in θ, with corners where a value enters or leaves
    # [0, 1]: interpolating between the corners is exact.
    corners = np.sort(np.concatenate([values, values - 1.0]))
    traces = np.clip(values[None, :] - corners[:, None], 0.0, 1.0).sum(axis=1)
    theta = np.interp(-float(k), -traces, corners)
    return np.asarray((vectors * np.clip(values - theta, 0.0, 1.0)) @ vectors.T)


def leading_directions(P: Square, k: int) -> Float[np.ndarray, "k d"]:
    """The top-k eigenvectors of `P` as rows: the nearest projection of rank k."""
    _, vectors = np.linalg.eigh((P + P.T) / 2)
    return np.asarray(vectors[:, ::-1][:, :k].T)


@contextmanager
def fitting_threads(rows: Float[np.ndarray, "row d"]) -> Iterator[None]:
    """Limit BLAS to one thread if the matrix is small."""
    with threadpool_limits(1 if rows.size < SMALL else None, user_api="blas"):
        yield


def run_parallel(
    calls: Sequence[Callable[[], _T]], rows: Float[np.ndarray, "row d"]
) -> Iterator[Future[_T]]:
    """Run fits on rows of this size in a thread pool; one by one if the matrix is large.

    Futures come in the order of `calls`, each when done; `result()` raises its call's error.
    """
    workers = torch.get_num_threads() if rows.size < SMALL else 1
    with fitting_threads(rows):
        pool = ThreadPoolExecutor(max(1, min(workers, len(calls))))
        try:
            for future in [pool.submit(call) for call in calls]:
                wait([future])
                yield future
        finally:  # an interrupt waits for running calls, not for queued ones
            pool.shutdown(cancel_futures=True)
