"""Counts, class means and (where asked) the scatter of rows, gathered batch by batch.

Batches are merged by the update of Chan, Golub and LeVeque (1983), so the memory is constant in the
number of rows and the result does not lose digits to a large mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_is_fitted

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.labelled import LabelledRows, read_rows, require_classes


class ClassMoments:
    """Running sums over batches of labelled rows; classes may turn up in any batch.

    Args:
        d: number of features.
        scatter: whether to gather Σ w (x - x̄)(x - x̄)ᵀ as well, at the cost of d × d memory.

    Attributes:
        mass: total weight of each class, in the order of `classes`.
        class_means: `[c, d]`.
        scatter: `[d, d]` about the overall mean, or None.
        n_rows: rows seen.
    """

    def __init__(self, d: int, *, scatter: bool) -> None:
        self.classes = np.zeros(0)
        self.mass: Float[np.ndarray, " c"] = np.zeros(0)
        self.class_means: Float[np.ndarray, "c d"] = np.zeros((0, d))
        self.scatter: Float[np.ndarray, "d d"] | None = np.zeros((d, d)) if scatter else None
        self.n_rows = 0

    @property
    def mean(self) -> Float[np.ndarray, " d"]:
        """The mean over all rows seen, as they were distributed."""
        return np.asarray(self.mass @ self.class_means / self.mass.sum())

    def update(self, rows: LabelledRows) -> None:
        """Add a batch."""
        if self.scatter is not None:
            batch = rows.X - rows.mean
            batch *= np.sqrt(rows.weight)[:, None]
            self.scatter += batch.T @ batch
            if self.n_rows:
                shift, a, b = rows.mean - self.mean, self.mass.sum(), rows.weight.sum()
                self.scatter += np.outer(shift, shift) * (a * b / (a + b))
        self._admit(rows.classes)
        at = np.searchsorted(self.classes, rows.classes)
        total = self.mass[at] + rows.mass
        self.class_means[at] += (rows.class_means - self.class_means[at]) * (rows.mass / total)[
            :, None
        ]
        self.mass[at] = total
        self.n_rows += len(rows.X)

    def _admit(self, labels: np.ndarray) -> None:
        classes = np.union1d(self.classes, labels) if len(self.classes) else labels
        if len(classes) > len(self.classes):
            old = np.searchsorted(classes, self.classes)
            mass, means = (
                np.zeros(len(classes)),
                np.zeros((len(classes), self.class_means.shape[1])),
            )
            mass[old], means[old] = self.mass, self.class_means
            self.classes, self.mass, self.class_means = classes, mass, means


class StreamingEraser(BaseEraser):
    """An eraser that needs only moments, so that the rows may come in batches.

    A subclass says how moments become an erasure (`_erasure_of`), and whether it needs the scatter.
    The erasure is computed at its first use: a stream pays for it once.
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {"sample_weight": True}
    _needs_scatter = False

    def partial_fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> StreamingEraser:
        """Add a batch of rows. Two classes must have been seen before `erasure_` is read.

        Raises:
            UserError: bad rows or labels, or another number of features than before.
        """
        first = not hasattr(self, "moments_")
        rows = read_rows(self, X, y, sample_weight, reset=first)
        if first:
            self.moments_ = ClassMoments(rows.X.shape[1], scatter=self._needs_scatter)
        self.moments_.update(rows)
        self.classes_ = self.moments_.classes
        self._erasure: AffineErasure | None = None
        return self

    @property
    def erasure_(self) -> AffineErasure:  # type: ignore[override]
        """The fitted `AffineErasure`."""
        check_is_fitted(self, "moments_")
        if self._erasure is None:
            require_classes(len(self.moments_.classes), self.moments_.n_rows)
            self._erasure = self._erasure_of(self.moments_)
        return self._erasure

    @property
    def rank_(self) -> int:  # type: ignore[override]
        """How many dimensions were erased in fact."""
        return self.erasure_.rank

    def _erasure_of(self, moments: ClassMoments) -> AffineErasure:
        raise NotImplementedError

    def _fit_stream(self, X: Any, z: Any, sample_weight: Any) -> None:
        self.__dict__.pop("moments_", None)
        self.partial_fit(X, z, sample_weight=sample_weight)
        _ = self.erasure_  # so that a bad rank is refused here, and not at the first transform
