"""Erase one covariance and preserve another (SPLINCE: Holstege, Ravfogel and Wouters 2025,
https://arxiv.org/abs/2506.10703).

    r(x) = x - M (x - E x),   min E‖M (x - E x)‖²   subject to   M Σ_xz = Σ_xz,  M Σ_xy = 0

In the paper's letters P = I - M = W⁺ V (Uᵀ V)⁻¹ Uᵀ W with W = Σ^(-1/2): its kernel is col(W Σ_xz),
and its range holds W Σ_xy. With A and B bases of col(Σ_xz) and col(Σ_xy), and C = [A B], no square
root of Σ is needed, as in LEACE, which this is where nothing is to be preserved:

    M = [A 0] (Cᵀ Σ⁺ C)⁻¹ Cᵀ Σ⁺
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import solve_triangular

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.labelled import (
    LabelledRows,
    as_numpy,
    read_features,
    require_classes,
)
from countergen_edit.erasers.methods.leace import (
    covariance_shrinkage,
    cross_covariance_span,
    solve_covariance,
)
from countergen_edit.erasers.moments import ClassMoments
from countergen_edit.erasers.shrinkage import shrunk
from countergen_edit.errors import UserError

ROUNDING = 1e-6
"""Radians below which the angle itself is rounding, whatever is asked for."""


class SPLINCE(BaseEraser):
    """Erase obliquely what groups differ in, save what they differ in elsewhere; mean: all rows.

    z is the group in the rows to erase, y the group in the rows marked `keep`: in the paper's
    experiment on gender, its stereotype and its fact. After erasure the group means coincide over
    the rows to erase, taken together; over the rows to keep, taken together, each differs from
    their common mean by what it did before. So cov(r(x), z) = 0 in the former and cov(r(x), y) =
    cov(x, y) in the latter, exactly. Both pool all contexts: a difference that points one way in
    one context and the other way in the next is neither erased nor kept, and the rows to keep may
    move as a whole. `PreservingEraser` demands both context by context, and keeps their means.

    Args:
        shrinkage: of Σ, as in LEACE: "optimal", or a number from 0 to 1. Neither guarantee depends
            on it, only "least change" does.
        min_angle: smallest angle, in radians and in the metric of Σ, between Σ_xz and Σ_xy.

    Attributes:
        angle_: the smallest principal angle between the two; π/2 where nothing is to be kept.

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
        """Fit to rows `X` `[row, d]` and classes `y`.

        Args:
            X: rows.
            y: their classes.
            keep: a boolean per row, True where the covariance with the class is to stay; None to
                erase all. Of rows of one class only there is none.
            background: rows `[other, d]` without a class. With `X` they are what is to move least:
                they enter Σ and the mean, and nothing else.

        Raises:
            UserError: bad rows, labels, `keep`, background or `shrinkage`, rows to erase of one
                class, or a conflict: an angle below `min_angle`.
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
        covariance = shrunk(covariance, amount) if amount else covariance
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
    kept = np.asarray(as_numpy(keep))
    if kept.dtype != bool or kept.shape != (n,):
        raise UserError(
            f"keep has {kept.dtype} values of shape {kept.shape} for {n} rows: give one boolean "
            "to each row"
        )
    return kept


def _cross_covariance(
    rows: LabelledRows, some: Int[np.ndarray, " some"]
) -> Float[np.ndarray, "d k"]:
    """Orthonormal columns that span the cross-covariance with the classes over some of the rows."""
    d = rows.X.shape[1]
    if not len(some):
        return np.zeros((d, 0))
    part = rows[some]
    present, codes = np.unique(part.codes, return_inverse=True)
    moments = ClassMoments(d, scatter=False)
    moments.update(replace(part, codes=codes, classes=present))
    return cross_covariance_span(moments)


def _smallest_angle(gram: Float[np.ndarray, "k k"], a: int) -> float:
    """Between the first `a` vectors and the others, from their inner products."""
    if a in (0, len(gram)):
        return float(np.pi / 2)
    own, others = (np.linalg.cholesky(block) for block in (gram[:a, :a], gram[a:, a:]))
    half = solve_triangular(own, gram[:a, a:], lower=True)
    cosines = np.linalg.svd(solve_triangular(others, half.T, lower=True), compute_uv=False)
    return float(np.arccos(min(cosines[0], 1.0)))
