"""The scikit-learn interface of erasers, their registry, and the metadata of `fit`."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Le
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.core.typed import require_arguments
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.certificate import Certificate, certify
from countergen_edit.erasers.labelled import LabelledRows, labelled_rows, read_features

Rank = Annotated[int, Ge(1)]
Share = Annotated[float, Ge(0), Le(1)]


class BaseEraser(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn transformer that erases a concept from rows of activations.

    Subclasses take parameters in `__init__` and call `_store` in `fit`, which gets those metadata
    that it names beyond `X` and `y`; per row unless stated otherwise:

    - `contexts`, `pairs`, `people`, `families`: ids of the template, the counterfactual pair, the
      person and the family of templates;
    - `keep`: whether the group difference is to stay;
    - `background`: rows `[m, d]` of other text, without a class.
    """

    row_ids_: tuple[str, ...] = ()
    """Metadata per row that was passed to `fit`, and that a refit needs."""
    note_: str = ""
    """A remark on the fit for readers of results, as the end of a sentence."""
    is_baseline: ClassVar[bool] = False
    """Whether it is a control, which is never selected."""
    no_guarantee_because: ClassVar[str | None] = None
    """Why this eraser has no guarantee, as the end of a sentence."""
    refit_in_folds: ClassVar[bool] = True
    """Whether a certificate refits it in each fold; False for slow erasers."""
    trains_weights: ClassVar[bool] = False
    """Whether it updates weights instead of mapping activations."""
    folds: ClassVar[bool] = True
    """Whether its edits can be weights of the unedited architecture."""

    erasure_: AffineErasure
    classes_: np.ndarray
    """Sorted labels."""
    rank_: int
    """Number of erased dimensions."""
    n_features_in_: int

    def check(self) -> None:
        """Raise a `UserError` for settings that the annotations of `__init__` do not allow."""
        cls = type(self)
        require_arguments(cls, self.get_params(deep=False), f"eraser {cls.__name__}")

    def fit(self, X: Any, y: Any) -> BaseEraser:
        """Fit to rows `X` `[n, d]` and their classes `y` `[n]`."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Erase rows `[n, d]`; a torch tensor stays one. `UserError` for NaN or another width."""
        check_is_fitted(self)
        rows = read_features(self, X)
        return self.erasure_(X if isinstance(X, Tensor) else rows)

    def certificate(self, X: Any, z: Any, **options: Any) -> Certificate:
        """`certify(self, X, z, **options)`, for the rows it was fitted on."""
        check_is_fitted(self)
        return certify(self, X, z, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32", "float16"]
        return tags

    def _read(self, X: Any, y: Any) -> LabelledRows:
        """Check the settings; rows `X` `[n, d]` and their classes, validated."""
        self.check()
        return labelled_rows(X, y, self)

    def _store(self, erasure: AffineErasure, classes: np.ndarray) -> None:
        self.erasure_ = erasure
        self.rank_ = erasure.rank
        self.classes_ = classes

    def _store_orthogonal(self, directions: np.ndarray, rows: LabelledRows) -> None:
        """Store the erasure of orthonormal rows, with the balanced mean."""
        self._store(AffineErasure.orthogonal(directions, rows.balanced_mean), rows.classes)


def fit_eraser(eraser: BaseEraser, X: Any, y: Any, **metadata: Any) -> BaseEraser:
    """Fit a clone of an eraser to rows `X` `[n, d]` and their classes `y` `[n]`.

    `UserError` if its `fit` does not return the eraser, or stores no map of width d.
    """
    name = type(eraser).__name__
    fitted: BaseEraser = clone(eraser)
    returned = fitted.fit(X, y, **metadata)
    if returned is not fitted:
        raise UserError(f"{name}.fit returned {returned!r:.40}: end it with `return self`")
    erasure = getattr(fitted, "erasure_", None)
    if not isinstance(erasure, AffineErasure) or erasure.d != np.shape(X)[1]:
        raise UserError(
            f"{name}.fit stored no map of width {np.shape(X)[1]}, as X has: call "
            "self._store(AffineErasure(left, right, mean), np.unique(y)) before it returns"
        )
    return fitted


ERASERS: Registry[type[BaseEraser]] = Registry(
    "eraser",
    "countergen_edit.erasers",
    {
        "inlp": "countergen_edit.erasers.inlp:INLP",
        "rlace": "countergen_edit.erasers.rlace:RLACE",
        "leace": "countergen_edit.erasers.leace:LEACE",
        "splince": "countergen_edit.erasers.leace:SPLINCE",
        "sal": "countergen_edit.erasers.orthogonal:SAL",
        "mean_difference": "countergen_edit.erasers.orthogonal:MeanDifference",
        "sentence_debias": "countergen_edit.erasers.orthogonal:SentenceDebias",
        "preserving": "countergen_edit.erasers.preserving:PreservingEraser",
        "gated": "countergen_edit.erasers.gated:Gated",
        "distilled": "countergen_edit.erasers.distilled:Distilled",
        "random": "countergen_edit.erasers.orthogonal:RandomDirections",
    },
    BaseEraser,
)
"""Erasers by their names in config; `@ERASERS.register("mine")` adds one."""


def make_eraser(name: str, **params: Any) -> BaseEraser:
    """Make the eraser registered under `name`, unfitted.

    `UserError` for an unknown eraser or parameter, with the nearest name.

    >>> make_eraser("inlp", rank=4)
    INLP(rank=4)
    """
    eraser: BaseEraser = ERASERS.make(name, params)
    return eraser


def fit_metadata(eraser: BaseEraser, offered: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that `eraser.fit` names, of those offered.

    >>> from countergen_edit.erasers import SentenceDebias
    >>> offered = {"pairs": [0, 0, 1, 1], "contexts": ["a", "a", "b", "b"]}
    >>> fit_metadata(SentenceDebias(), offered)
    {'pairs': [0, 0, 1, 1]}
    """
    parameters = signature(eraser.fit).parameters
    return {name: value for name, value in offered.items() if name in parameters}
