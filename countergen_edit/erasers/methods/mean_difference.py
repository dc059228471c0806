"""Erase the span of the differences of class means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.solvers.spectral import fix_signs, thin_svd


class MeanDifference(BaseEraser):
    """Erase orthogonally the span of { μ_g - μ̄ }, of rank c - 1 for c classes; mean: μ̄.

    All class means then coincide, so that no linear probe with an intercept beats the constant
    predictor (Belrose et al. 2023, Theorem 3.1, https://arxiv.org/abs/2306.03819).

    >>> X = np.array([[0.0, 1.0, 0.0], [2.0, 1.0, 1.0], [0.0, 3.0, 0.0], [2.0, 3.0, 1.0]])
    >>> MeanDifference().fit(X, ["f", "f", "m", "m"]).erasure_.right.round(6).tolist()
    [[0.0, 1.0, 0.0]]
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {"sample_weight": True}

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> MeanDifference:
        """Fit to rows `X` `[n, d]`, classes `y` and, optionally, a weight per row."""
        rows = self._read(X, y, sample_weight)
        span = span_of_means(rows.class_means)
        self._store(AffineErasure.orthogonal(span, rows.balanced_mean), rows.classes)
        return self


def span_of_means(means: np.ndarray) -> np.ndarray:
    """Orthonormal rows that span the differences of class means `[c, d]`, strongest first."""
    apart = means - means.mean(axis=0)
    _, size, right = thin_svd(apart)
    # Means are known to rounding of their own size, not of their difference's.
    noise = np.finfo(np.float64).eps * np.abs(means).max(initial=0.0) * np.sqrt(means.size)
    return fix_signs(right[: len(means) - 1][size[: len(means) - 1] > max(noise, 1e-10 * size[0])])
