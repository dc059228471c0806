"""Erase the span of the differences of class means: the plainest eraser that carries a guarantee.

    D = orthonormal basis of { μ_g - μ̄ : g a class }

All class means then coincide, which by Belrose et al. 2023 (Theorem 3.1,
https://arxiv.org/abs/2306.03819) is what it takes for no linear probe with an intercept, of any
convex loss, to beat the best constant predictor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.moments import ClassMoments, StreamingEraser
from countergen_edit.erasers.svd import thin_svd


class MeanDifference(StreamingEraser):
    """Erase, orthogonally, the span of the class-mean differences; mean: balanced over the groups.

    It has rank c - 1 for c classes, or less where the class means are linearly dependent.

    >>> X = np.array([[0.0, 1.0, 0.0], [2.0, 1.0, 1.0], [0.0, 3.0, 0.0], [2.0, 3.0, 1.0]])
    >>> MeanDifference().fit(X, ["f", "f", "m", "m"]).erasure_.right.round(6).tolist()
    [[0.0, 1.0, 0.0]]
    """

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> MeanDifference:
        """Fit to rows `X` `[row, d]`, classes `y` and, optionally, a weight per row.

        Raises:
            UserError: bad rows or labels.
        """
        self._fit_stream(X, y, sample_weight)
        return self

    def _erasure_of(self, moments: ClassMoments) -> AffineErasure:
        return AffineErasure.orthogonal(
            span_of_means(moments.class_means), moments.class_means.mean(axis=0)
        )


def span_of_means(means: np.ndarray) -> np.ndarray:
    """Orthonormal rows that span the differences of class means `[c, d]`, strongest first.

    The sign is fixed (largest entry positive), so that equal data give equal directions.
    """
    apart = means - means.mean(axis=0)
    _, size, right = thin_svd(apart)
    # Means are known to rounding of their own size, not of their difference's.
    noise = np.finfo(np.float64).eps * np.abs(means).max(initial=0.0) * np.sqrt(means.size)
    rows = right[: len(means) - 1][size[: len(means) - 1] > max(noise, 1e-10 * size[0])]
    return np.asarray(
        rows * np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)])[:, None]
    )
