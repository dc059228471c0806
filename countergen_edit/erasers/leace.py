"""LEACE, which erases cov(x, z) with the least change, and SPLINCE, which keeps cov(x, y) too.

LEACE (Belrose et al. 2023, Theorem 4.2, https://arxiv.org/abs/2306.03819):

    r(x) = x - U (Uᵀ Σ⁺ U)⁻¹ Uᵀ Σ⁺ (x - E x),   U any basis of col(Σ_xz)

SPLINCE (Holstege, Ravfogel and Wouters 2025, https://arxiv.org/abs/2506.10703), with bases A and B
of col(Σ_xz) and col(Σ_xy), and C = [A B]:

    r(x) = x - [A 0] (Cᵀ Σ⁺ C)⁻¹ Cᵀ Σ⁺ (x - E x)
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpocon

from countergen_edit.core.errors import UserError
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser, Share
from countergen_edit.erasers.labelled import (
    LabelledRows,
    read_background,
    read_per_row,
    require_classes,
)
from countergen_edit.erasers.numerics import Square, thin_svd

_Columns = Float[np.ndarray, "d k"]
_ROUNDING = 1e-6
"""Angles below this, in radians, are rounding errors."""


@dataclass(eq=False, repr=False)
class LEACE(BaseEraser):
    """Erase obliquely with the least mean squared change; mean: of all rows.

    Class means coincide after erasure with any `shrinkage`.

    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> LEACE().fit(X, X[:, 0] > 0).rank_
    1
    """

    _: KW_ONLY
    shrinkage: Literal["optimal"] | Share = "optimal"
    """Of the covariance towards a sphere: "optimal", or a share."""

    def fit(self, X: Any, y: Any) -> LEACE:
        rows = self._read(X, y)
        n = len(rows.X)
        centred = rows.X - rows.mean
        covariance = _shrunk(centred.T @ centred / n, self.shrinkage, n)
        left = cross_covariance_span(rows)
        solved = _solve_covariance(covariance, left)
        right = np.linalg.solve(left.T @ solved, solved.T)
        self._store(AffineErasure(left, right, _mean(rows)), rows.classes)
        return self


@dataclass(eq=False, repr=False)
class SPLINCE(BaseEraser):
    """Erase obliquely the group difference, except where rows are kept; mean: of all rows.

    z is the group in rows to erase, y the group in rows to keep. Over each of these, pooled,
    cov(r(x), z) = 0 and cov(r(x), y) = cov(x, y); `PreservingEraser` demands both per context.

    Parameters
    ----------
    shrinkage : of Σ, as in LEACE
    min_angle : smallest angle between Σ_xz and Σ_xy, in radians and in the metric of Σ; found as
        `angle_`

    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> fitted = SPLINCE().fit(X, X[:, 0] + X[:, 1] > 0, keep=np.arange(60) < 20)
    >>> fitted.rank_, 0.01 < fitted.angle_ < np.pi / 2
    (1, True)
    """

    no_guarantee_because = "rows that are kept keep their covariance with the group"

    _: KW_ONLY
    shrinkage: Literal["optimal"] | Share = "optimal"
    min_angle: float = 0.01

    def fit(self, X: Any, y: Any, *, keep: Any = None, background: Any = None) -> SPLINCE:
        """Fit to rows `X` `[n, d]` and classes `y`.

        `keep` is a boolean per row, None to erase all; `background` enters Σ and the mean.
        `UserError` for invalid input, rows to erase of one class, or an angle below `min_angle`.
        """
        rows = self._read(X, y)
        kept = read_per_row([False] * len(rows.X) if keep is None else keep, "keep", len(rows.X))
        if kept.dtype != bool:
            raise UserError(f"keep has {kept.dtype} values: give one boolean to each row")
        require_classes(rows[np.flatnonzero(~kept)])
        self.row_ids_ = () if keep is None else ("keep",)
        X = read_background(self, rows.X, background)
        covariance = np.cov(X.T, bias=True).reshape(2 * X.shape[1:])
        covariance = _shrunk(covariance, self.shrinkage, len(X))
        A, B = (_span_of(rows[np.flatnonzero(mask)]) for mask in (~kept, kept))
        C = np.hstack([A, B])
        solved = _solve_covariance(covariance, C)
        gram = C.T @ solved
        self.angle_ = _smallest_angle(gram, A.shape[1])
        least = max(self.min_angle, _ROUNDING)
        if self.angle_ < least:
            raise UserError(
                f"the difference to erase comes within {self.angle_:.2g} rad of the one to keep "
                f"(min_angle = {least}): keep other rows, or none; measure a model whose bias was "
                "already erased there with eraser=none"
            )
        right = np.linalg.solve(gram, solved.T)
        right += (np.eye(len(gram)) - right @ C) @ right  # corrects rounding
        self._store(AffineErasure(A, right[: A.shape[1]], X.mean(axis=0)), rows.classes)
        return self


def _span_of(rows: LabelledRows) -> _Columns:
    if not len(rows.X):
        return np.zeros((rows.X.shape[1], 0))
    present, codes = np.unique(rows.codes, return_inverse=True)
    return cross_covariance_span(replace(rows, codes=codes, classes=present))


def _smallest_angle(gram: Float[np.ndarray, "k k"], a: int) -> float:
    """Between the first `a` vectors and the others, from their inner products."""
    if a in (0, len(gram)):
        return float(np.pi / 2)
    first, second = (np.linalg.cholesky(block) for block in (gram[:a, :a], gram[a:, a:]))
    half = solve_triangular(first, gram[:a, a:], lower=True)
    cosines = np.linalg.svd(solve_triangular(second, half.T, lower=True), compute_uv=False)
    return float(np.arccos(min(cosines[0], 1.0)))


def _mean(rows: LabelledRows) -> Float[np.ndarray, " d"]:
    return np.asarray(rows.sizes @ rows.class_means / len(rows.X))


def cross_covariance_span(rows: LabelledRows) -> _Columns:
    """Orthonormal columns that span cov(x, z) for one-hot z, strongest first."""
    share, means = rows.sizes / len(rows.X), rows.class_means
    cross = ((means - _mean(rows)) * share[:, None]).T
    left, size, _ = thin_svd(cross)
    most = len(share) - 1  # the columns of cov(x, z) sum to zero
    noise = np.finfo(np.float64).eps * np.abs(means).max() * np.sqrt(cross.size)
    return np.asarray(left[:, :most][:, size[:most] > max(noise, 1e-10 * size[0])])


def optimal_shrinkage(covariance: Square, n: float) -> float:
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


def _shrunk(covariance: Square, shrinkage: str | float, n: float) -> Square:
    """`(1 - s) S + s tr(S)/d I` for the covariance S of `n` rows."""
    amount = optimal_shrinkage(covariance, n) if isinstance(shrinkage, str) else float(shrinkage)
    sphere = amount * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    return np.asarray((1.0 - amount) * covariance + sphere)


def _solve_covariance(covariance: Square, right: _Columns) -> _Columns:
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
