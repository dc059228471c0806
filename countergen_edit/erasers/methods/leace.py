"""Least-squares concept erasure (Belrose et al. 2023, Theorem 4.2, https://arxiv.org/abs/2306.03819).

    r(x) = x - W⁺ Π W (x - E x),   W = Σ^(-1/2),  Π the orthogonal projection onto col(W Σ_xz)

Written with U, any basis of col(Σ_xz), no square root of Σ is needed:

    W⁺ Π W = U (Uᵀ Σ⁺ U)⁻¹ Uᵀ Σ⁺

Among all affine maps after which no linear probe succeeds, this one moves the rows least in mean
square. The affine term (E x, the mean over *all rows*) is part of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.linalg.lapack import dpocon

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.moments import ClassMoments, StreamingEraser
from countergen_edit.erasers.shrinkage import optimal_shrinkage, shrunk
from countergen_edit.erasers.svd import thin_svd
from countergen_edit.errors import UserError


class LEACE(StreamingEraser):
    """Erase obliquely, with the least change; mean: the mean over all rows.

    The guarantee does not depend on how well Σ is known, only "least change" does: class means
    coincide after erasure with any shrinkage.

    Args:
        shrinkage: of Σ: "optimal" (Bodnar et al., as in the package concept-erasure), or a number
            from 0 (the sample covariance) to 1 (a sphere, which makes the erasure orthogonal).

    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> LEACE().fit(X, X[:, 0] > 0).rank_
    1
    """

    _needs_scatter = True

    def __init__(self, *, shrinkage: str | float = "optimal") -> None:
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> LEACE:
        """Fit to rows `X` `[row, d]`, classes `y` and, optionally, a weight per row.

        Raises:
            UserError: bad rows or labels, or a `shrinkage` that is none.
        """
        self._fit_stream(X, y, sample_weight)
        return self

    def _erasure_of(self, moments: ClassMoments) -> AffineErasure:
        assert moments.scatter is not None
        n = float(moments.mass.sum())
        covariance = moments.scatter / n
        amount = covariance_shrinkage(self.shrinkage, covariance, n)
        left = cross_covariance_span(moments)
        covariance = shrunk(covariance, amount) if amount else covariance
        solved = solve_covariance(covariance, left)
        return AffineErasure(left, np.linalg.solve(left.T @ solved, solved.T), moments.mean)


def cross_covariance_span(moments: ClassMoments) -> Float[np.ndarray, "d k"]:
    """Orthonormal columns that span cov(x, z) for one-hot z, strongest first."""
    share = moments.mass / moments.mass.sum()
    cross = ((moments.class_means - moments.mean) * share[:, None]).T
    left, size, _ = thin_svd(cross)
    most = len(share) - 1  # the columns of cov(x, z) sum to zero
    noise = np.finfo(np.float64).eps * np.abs(moments.class_means).max() * np.sqrt(cross.size)
    return np.asarray(left[:, :most][:, size[:most] > max(noise, 1e-10 * size[0])])


def solve_covariance(
    covariance: Float[np.ndarray, "d d"], right: Float[np.ndarray, "d k"]
) -> Float[np.ndarray, "d k"]:
    """Σ⁺ times `right`: by Cholesky where Σ is safely invertible, by its eigenvectors where not."""
    try:
        factor = cholesky(covariance, lower=True, check_finite=False)
        norm = float(np.abs(covariance).sum(axis=0).max())
        inverse_condition, _ = dpocon(factor, norm, uplo="L")
        if inverse_condition > 1e-12:
            return np.asarray(cho_solve((factor, True), right, check_finite=False))
    except LinAlgError:
        pass
    values, vectors = np.linalg.eigh(covariance)
    safe = values > values[-1] * len(values) * np.finfo(np.float64).eps
    return np.asarray(vectors[:, safe] @ ((vectors[:, safe].T @ right) / values[safe, None]))


def covariance_shrinkage(
    shrinkage: str | float, covariance: Float[np.ndarray, "d d"], n: float
) -> float:
    """The amount that a setting means for the covariance of `n` rows.

    Raises:
        UserError: neither "optimal" nor a number from 0 to 1.
    """
    if shrinkage == "optimal":
        return optimal_shrinkage(covariance, n)
    if isinstance(shrinkage, str) or not 0 <= shrinkage <= 1:
        raise UserError(f"shrinkage = {shrinkage!r}: use 'optimal', or a number from 0 to 1")
    return float(shrinkage)
