"""Validated training data of an eraser: finite rows and classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from countergen_edit.core.errors import UserError


@dataclass(frozen=True)
class LabelledRows:
    """Rows `[row, d]` with class codes."""

    X: Float[np.ndarray, "row d"]
    codes: Int[np.ndarray, " row"]
    classes: np.ndarray

    @property
    def sizes(self) -> Float[np.ndarray, " c"]:
        """Number of rows of each class."""
        return np.bincount(self.codes, minlength=len(self.classes)).astype(np.float64)

    @property
    def class_means(self) -> Float[np.ndarray, "c d"]:
        member = np.zeros((len(self.classes), len(self.codes)))
        member[self.codes, np.arange(len(self.codes))] = 1.0
        return np.asarray(member @ self.X / self.sizes[:, None])

    @property
    def mean(self) -> Float[np.ndarray, " d"]:
        """Mean of all rows."""
        return np.asarray(np.ones(len(self.X)) @ self.X / len(self.X))

    @property
    def balanced_mean(self) -> Float[np.ndarray, " d"]:
        """Unweighted mean of the class means."""
        return np.asarray(self.class_means.mean(axis=0))

    def __getitem__(self, positions: Int[np.ndarray, " chosen"]) -> LabelledRows:
        return replace(self, X=self.X[positions], codes=self.codes[positions])


def as_numpy(values: Any) -> Any:
    """A torch tensor as NumPy (bfloat16 through float32); other values as they are."""
    if not isinstance(values, torch.Tensor):
        return values
    tensor = values.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def read_features(estimator: Any, X: Any) -> np.ndarray:
    """Validate `X` against the number of features that `estimator` was fitted on."""
    dtypes = [np.float64, np.float32, np.float16]
    return np.asarray(_validated(estimator, as_numpy(X), reset=False, dtype=dtypes)[0])


def read_background(estimator: Any, X: np.ndarray, background: Any) -> Float[np.ndarray, "row d"]:
    """The rows and below them those of the background, if any."""
    if background is None:
        return X
    return np.vstack([X, read_features(estimator, background).astype(np.float64)])


def labelled_rows(X: Any, z: Any, estimator: Any = None) -> LabelledRows:
    """Validate `X` and `z` as scikit-learn does, and code the classes.

    `estimator` remembers the number of features. `UserError` for invalid rows or a single class.
    """
    X, z = _validated(estimator, as_numpy(X), as_numpy(z), dtype=np.float64)
    classes, codes = np.unique(z, return_inverse=True)
    rows = LabelledRows(X, codes, classes)
    require_classes(rows)
    return rows


def _validated(estimator: Any, *arrays: Any, **options: Any) -> Sequence[np.ndarray]:
    """Rows, and labels if there are any, as scikit-learn reads them."""
    try:
        validated = validate_data(
            BaseEstimator() if estimator is None else estimator,
            *arrays,
            ensure_all_finite=False,
            **options,
        )
        X, *labels = validated if len(arrays) > 1 else [validated]
        for z in labels:
            check_classification_targets(z)
    except ValueError as error:
        # scikit-learn's wording is kept (its own checks look for it), its line breaks are not.
        raise UserError(" ".join(str(error).split())) from error
    if not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        raise UserError(
            f"Input X contains {'NaN' if np.isnan(X[row, column]) else 'infinity'} (first at row "
            f"{row}, column {column}): drop those rows, or capture the activations in float32"
        )
    return X, *labels


def read_per_row(values: Any, name: str, n: int) -> np.ndarray:
    """Values as an array of shape `(n,)`; `UserError` for another shape."""
    array = np.asarray(as_numpy(values))
    if array.shape != (n,):
        raise UserError(f"{name} has shape {array.shape} for {n} rows: give one value to each row")
    return array


def require_classes(rows: LabelledRows) -> None:
    """Raise a `UserError` unless the rows are of at least two classes."""
    if len(np.unique(rows.codes)) < 2:
        raise UserError(
            f"z holds only one class (n_samples = {len(rows.X)}): "
            "an eraser needs rows of two groups or more"
        )


def require_rank(rank: int, d: int) -> None:
    """Raise a `UserError` unless `rank` leaves a dimension."""
    if rank >= d:
        raise UserError(
            f"rank = {rank} would erase all of n_features = {d}: use {max(d - 1, 1)} or less"
        )
