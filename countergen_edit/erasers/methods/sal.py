"""Spectral attribute removal (Shao, Ziser and Cohen 2023, https://aclanthology.org/2023.eacl-main.118).

U Λ Vᵀ = svd(cov(x, z)),   x ↦ x - U_k U_kᵀ (x - m)
"""

from __future__ import annotations

from typing import Any

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.labelled import require_rank
from countergen_edit.erasers.methods.leace import cross_covariance_span
from countergen_edit.erasers.moments import ClassMoments, StreamingEraser
from countergen_edit.errors import UserError


class SAL(StreamingEraser):
    """Erase the leading left singular vectors of cov(x, z); mean: balanced over the groups.

    With all c - 1 of them it erases the same span as `MeanDifference`, with the same guarantee.

    Args:
        rank: how many; None for all, that is c - 1 for c classes in general position.
    """

    def __init__(self, rank: int | None = None) -> None:
        self.rank = rank

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> SAL:
        """Fit to rows `X` `[row, d]`, classes `y` and, optionally, a weight per row.

        Raises:
            UserError: bad rows or labels, or a `rank` above the number of directions of cov(x, z).
        """
        self._fit_stream(X, y, sample_weight)
        return self

    def _erasure_of(self, moments: ClassMoments) -> AffineErasure:
        span = cross_covariance_span(moments)
        if self.rank is not None:
            require_rank(self.rank, len(span))
            if self.rank > span.shape[1]:
                raise UserError(
                    f"rank = {self.rank}, but cov(x, z) of {len(moments.classes)} classes has only "
                    f"{span.shape[1]} directions: use at most that, or eraser 'inlp'"
                )
            span = span[:, : self.rank]
        return AffineErasure.orthogonal(span.T, moments.class_means.mean(axis=0))
