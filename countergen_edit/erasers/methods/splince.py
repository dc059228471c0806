"""SPLINCE: erase one covariance and preserve another.

Holstege, Ravfogel and Wouters (2025, https://arxiv.org/abs/2506.10703):

    r(x) = x - M (x - E x),   min E‖M (x - E x)‖²   subject to   M Σ_xz = Σ_xz,  M Σ_xy = 0

With bases A and B of col(Σ_xz) and col(Σ_xy), and C = [A B]:

    M = [A 0] (Cᵀ Σ⁺ C)⁻¹ Cᵀ Σ⁺
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import solve_triangular

from countergen_edit.core.errors import UserError
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.labelled import (
    LabelledRows,
    read_features,
    read_per_row,
    require_classes,
)
from countergen_edit.erasers.methods.leace import (
    covariance_shrinkage,
    cross_covariance_span,
    shrink,
    solve_covariance,
)

ROUNDING = 1e-6
"""Angles below this, in radians, are rounding errors."""


class SPLINCE(BaseEraser):
    """Erase obliquely what groups differ in, except what they differ in elsewhere; mean: all rows.

    z is the group in rows to erase, y the group in rows to keep. Over each of these, pooled,
    cov(r(x), z) = 0 and cov(r(x), y) = cov(x, y); `PreservingEraser` demands both per context.

    Parameters
    ----------
    shrinkage : "optimal" or float
        Of Σ, as in LEACE.
    min_angle : float
        Smallest angle between Σ_xz and Σ_xy, in radians and in the metric of Σ.

    Attributes
    ----------
    angle_ : float
        Smallest principal angle in radians; π/2 if nothing is to be kept.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> fitted = SPLINCE().fit(X, X[:, 0] + X[:, 1] > 0, keep=np.arange(60) < 20)
    >>> fitted.rank_, 0.01 < fitted.angle_ < np.pi / 2
    (1, True)
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {"keep": True, "background": True}
    no_guarantee_because = "rows that are kept keep their covariance with the group"

    def __init__(self, *, shrinkage: str | float = "optimal", min_angle: float = 0.01) -> None:
        self.shrinkage = shrinkage
        self.min_angle = min_angle

    def fit(self, X: Any, y: Any, *, keep: Any = None, background: Any = None) -> SPLINCE:
        """Fit to rows `X` `[n, d]` and classes `y`.

        `keep` is a boolean per row, None to erase all; `background` enters Σ and the mean.

        Raises
        ------
        UserError
            For invalid input, rows to erase of one class, or an angle below `min_angle`.
        """
        rows = self._read(X, y)
        kept = _kept(keep, len(rows.X))
        require_classes(len(np.unique(rows.codes[~kept])), int((~kept).sum()))
        self.row_ids_ = () if keep is None else ("keep",)
        every = rows.X
        if background is not None:
            every = np.vstack([every, read_features(self, background).astype(np.float64)])
        mean = every.mean(axis=0)
        covariance = np.cov(every.T, bias=True).reshape(2 * every.shape[1:])
        amount = covariance_shrinkage(self.shrinkage, covariance, len(every))
        covariance = shrink(covariance, amount) if amount else covariance
        A, B = (_cross_covariance(rows, np.flatnonzero(part)) for part in (~kept, kept))
        both = np.hstack([A, B])
        solved = solve_covariance(covariance, both)
        gram = both.T @ solved
        self.angle_ = _smallest_angle(gram, A.shape[1])
        least = max(self.min_angle, ROUNDING)
        if self.angle_ < least:
            raise UserError(
                f"what must go comes within {self.angle_:.2g} rad of what must stay (min_angle = "
                f"{least}): the classes differ alike in both; keep other rows, or none; of a model "
                "whose bias was erased there nothing is left: eraser=none measures it alone"
            )
        right = np.linalg.solve(gram, solved.T)
        right += (np.eye(len(gram)) - right @ both) @ right  # what rounding left of the demands
        self._store(AffineErasure(A, right[: A.shape[1]], mean), rows.classes)
        return self


def _kept(keep: Any, n: int) -> Bool[np.ndarray, " row"]:
    if keep is None:
        return np.zeros(n, dtype=bool)
    kept = read_per_row(keep, "keep", n)
    if kept.dtype != bool:
        raise UserError(f"keep has {kept.dtype} values: give one boolean to each row")
    return kept


def _cross_covariance(
    rows: LabelledRows, some: Int[np.ndarray, " some"]
) -> Float[np.ndarray, "d k"]:
    """Orthonormal basis of the cross-covariance with the classes over some of the rows."""
    d = rows.X.shape[1]
    if not len(some):
        return np.zeros((d, 0))
    part = rows[some]
    present, codes = np.unique(part.codes, return_inverse=True)
    return cross_covariance_span(replace(part, codes=codes, classes=present))


def _smallest_angle(gram: Float[np.ndarray, "k k"], a: int) -> float:
    """Between the first `a` vectors and the others, from their inner products."""
    if a in (0, len(gram)):
        return float(np.pi / 2)
    own, others = (np.linalg.cholesky(block) for block in (gram[:a, :a], gram[a:, a:]))
    half = solve_triangular(own, gram[:a, a:], lower=True)
    cosines = np.linalg.svd(solve_triangular(others, half.T, lower=True), compute_uv=False)
    return float(np.arccos(min(cosines[0], 1.0)))
