"""LEACE and SAL, which erase the cross-covariance of rows and classes.

LEACE (Belrose et al. 2023, Theorem 4.2, https://arxiv.org/abs/2306.03819):

    r(x) = x - U (Uᵀ Σ⁺ U)⁻¹ Uᵀ Σ⁺ (x - E x),   U any basis of col(Σ_xz)

SAL (Shao, Ziser and Cohen 2023, https://aclanthology.org/2023.eacl-main.118):

    r(x) = x - U_k U_kᵀ (x - m),   U Λ Vᵀ = svd(Σ_xz)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.linalg.lapack import dpocon

from countergen_edit.core.errors import UserError
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.labelled import LabelledRows, require_rank
from countergen_edit.erasers.solvers.spectral import thin_svd


def optimal_shrinkage(covariance: Float[np.ndarray, "d d"], n: float) -> float:
    """The best s for a covariance of `n` rows (divided by n), in [0, 1].

    Bodnar, Gupta and Parolya (2014, https://arxiv.org/abs/1308.2608):
    s = (tr S)² / n / (‖S‖² - (tr S)² / d), asymptotically optimal in the Frobenius norm.

    >>> optimal_shrinkage(np.diag([4.0, 1.0, 1.0]), 1e9) < 1e-6
    True
    """
    trace = float(np.trace(covariance))
    excess = float((covariance**2).sum()) - trace**2 / len(covariance)
    if excess <= np.finfo(np.float64).eps * trace**2:
        return 1.0  # S is a sphere already
    return min(1.0, trace**2 / n / excess)


def shrink(covariance: Float[np.ndarray, "d d"], amount: float) -> Float[np.ndarray, "d d"]:
    """`(1 - amount) S + amount tr(S)/d I`."""
    sphere = amount * np.trace(covariance) / len(covariance)
    result = (1.0 - amount) * covariance
    result.flat[:: len(result) + 1] += sphere
    return np.asarray(result)


class LEACE(BaseEraser):
    """Erase obliquely with the least mean squared change; mean: of all rows.

    Class means coincide after erasure with any shrinkage.

    Parameters
    ----------
    shrinkage : "optimal" or float
        Of Σ towards a sphere: Bodnar et al., or a number from 0 to 1.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> LEACE().fit(X, X[:, 0] > 0).rank_
    1
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {"sample_weight": True}

    def __init__(self, *, shrinkage: str | float = "optimal") -> None:
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> LEACE:
        """Fit to rows `X` `[n, d]`, classes `y` and, optionally, a weight per row."""
        rows = self._read(X, y, sample_weight)
        n = float(rows.mass.sum())
        centred = (rows.X - rows.mean) * np.sqrt(rows.weight)[:, None]
        covariance = centred.T @ centred / n
        amount = covariance_shrinkage(self.shrinkage, covariance, n)
        left = cross_covariance_span(rows)
        covariance = shrink(covariance, amount) if amount else covariance
        solved = solve_covariance(covariance, left)
        right = np.linalg.solve(left.T @ solved, solved.T)
        self._store(AffineErasure(left, right, _mean(rows)), rows.classes)
        return self


def _mean(rows: LabelledRows) -> Float[np.ndarray, " d"]:
    """The mean of all rows, from the class means."""
    return np.asarray(rows.mass @ rows.class_means / rows.mass.sum())


def cross_covariance_span(rows: LabelledRows) -> Float[np.ndarray, "d k"]:
    """Orthonormal columns that span cov(x, z) for one-hot z, strongest first."""
    share, means = rows.mass / rows.mass.sum(), rows.class_means
    cross = ((means - _mean(rows)) * share[:, None]).T
    left, size, _ = thin_svd(cross)
    most = len(share) - 1  # the columns of cov(x, z) sum to zero
    noise = np.finfo(np.float64).eps * np.abs(means).max() * np.sqrt(cross.size)
    return np.asarray(left[:, :most][:, size[:most] > max(noise, 1e-10 * size[0])])


def solve_covariance(
    covariance: Float[np.ndarray, "d d"], right: Float[np.ndarray, "d k"]
) -> Float[np.ndarray, "d k"]:
    """Σ⁺ times `right`: by Cholesky if Σ is well conditioned, by its eigenvectors if not."""
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
    """The amount that a setting means for the covariance of `n` rows."""
    if shrinkage == "optimal":
        return optimal_shrinkage(covariance, n)
    if isinstance(shrinkage, str) or not 0 <= shrinkage <= 1:
        raise UserError(f"shrinkage = {shrinkage!r}: use 'optimal', or a number from 0 to 1")
    return float(shrinkage)


class SAL(BaseEraser):
    """Erase the leading left singular vectors of cov(x, z); mean: balanced over the groups.

    Parameters
    ----------
    rank : int, optional
        Default: all c - 1, which erases the same span as `MeanDifference`.
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {"sample_weight": True}

    def __init__(self, rank: int | None = None) -> None:
        self.rank = rank

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> SAL:
        """Fit to rows `X` `[n, d]`, classes `y` and, optionally, a weight per row.

        Raises
        ------
        UserError
            For invalid input, or a `rank` above the number of directions of cov(x, z).
        """
        rows = self._read(X, y, sample_weight)
        span = cross_covariance_span(rows)
        if self.rank is not None:
            require_rank(self.rank, len(span))
            if self.rank > span.shape[1]:
                raise UserError(
                    f"rank = {self.rank}, but cov(x, z) of {len(rows.classes)} classes has only "
                    f"{span.shape[1]} directions: use at most that, or eraser 'inlp'"
                )
            span = span[:, : self.rank]
        self._store(AffineErasure.orthogonal(span.T, rows.balanced_mean), rows.classes)
        return self
