"""What all erasers share: the scikit-learn surface, and the registry of their names."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.certificate import Certificate, certify
from countergen_edit.erasers.labelled import (
    LabelledRows,
    read_features,
    read_rows,
    require_classes,
)
from countergen_edit.errors import UserError
from countergen_edit.registry import Registry


class BaseEraser(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn transformer that erases a concept from rows of activations.

    A subclass gives its parameters in `__init__` and sets its result in `fit` with `_store`. What
    its `fit` takes beside rows and classes it requests in `__metadata_request__fit` (see
    `erasers.routing`): `contexts`, `keep`, `background`, `people`, `pairs`, `sample_weight`,
    `objective`.
    scikit-learn fixes the name `y` for what the papers, and this room's prose, call z.

    Attributes:
        erasure_: the fitted `AffineErasure`.
        classes_: the labels of z, sorted.
        rank_: how many dimensions were erased in fact.
        n_features_in_: d.
    """

    row_ids_: tuple[str, ...] = ()
    """The ids per row (pairs, contexts) that were passed to `fit`, which a refit must be given."""

    remark_: str = ""
    """What a reader of figures should know of the fit, as the end of a sentence."""

    is_baseline: ClassVar[bool] = False
    """Whether it is a control that real erasers are held against, and no choice may fall on."""
    no_guarantee_because: ClassVar[str | None] = None
    """Why fitting well gives this eraser no guarantee, as the end of a sentence."""
    is_refitted: ClassVar[bool] = True
    """Whether a certificate fits it anew without each fold; what takes long is probed as it is."""

    erasure_: AffineErasure
    classes_: np.ndarray
    rank_: int
    n_features_in_: int

    @property
    def n_steps(self) -> int:
        """Most steps of gradient that a fit takes through a model; 0 for closed forms."""
        return 0

    @property
    def draft(self) -> BaseEraser:
        """What stands for it where many layers are tried on few data; itself, if it is quick."""
        return self

    def check(self) -> None:
        """Refuse settings that no data can make right, before anything is measured.

        Raises:
            UserError: with what to change.
        """
        rank = getattr(self, "rank", None)
        if isinstance(rank, int) and rank < 1:
            raise UserError(
                f"rank = {rank} is no number of dimensions: use a whole number from 1 to d - 1"
            )

    def fit(self, X: Any, y: Any) -> BaseEraser:
        """Fit to rows `X` `[row, d]` and their classes `y` `[row]`."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Erase rows `[row, d]`; a torch tensor comes back as one, on its device.

        Raises:
            UserError: NaN or infinity, or another number of features than in `fit`.
        """
        check_is_fitted(self)
        rows = read_features(self, X)
        torch = sys.modules.get("torch")
        is_tensor = torch is not None and isinstance(X, torch.Tensor)
        return self.erasure_(X if is_tensor else rows)

    def certificate(self, X: Any, z: Any, **options: Any) -> Certificate:
        """`certify(self, X, z, **options)`; the guarantee speaks of the rows it was fitted on."""
        check_is_fitted(self)
        return certify(self, X, z, **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32", "float16"]
        return tags

    def _read(self, X: Any, z: Any, sample_weight: Any = None) -> LabelledRows:
        rows = read_rows(self, X, z, sample_weight)
        require_classes(len(rows.classes), len(rows.X))
        return rows

    def _store(self, erasure: AffineErasure, classes: np.ndarray) -> None:
        self.erasure_ = erasure
        self.rank_ = erasure.rank
        self.classes_ = classes


def fit_eraser(eraser: BaseEraser, X: Any, y: Any, **metadata: Any) -> BaseEraser:
    """A clone of an eraser, fitted to rows `X` `[row, d]` and their classes `y` `[row]`.

    Raises:
        UserError: its `fit` does not return the eraser, stores no map, or stores one of another
            width than d.
    """
    own: BaseEraser = clone(eraser)
    name, fitted = type(eraser).__name__, own.fit(X, y, **metadata)
    if fitted is not own:
        raise UserError(f"{name}.fit returned {fitted!r:.40}: end it with `return self`")
    erasure = getattr(own, "erasure_", None)
    if not isinstance(erasure, AffineErasure):
        raise UserError(
            f"{name}.fit stored no map: call self._store(AffineErasure(left, right, mean), "
            "np.unique(y)) before it returns"
        )
    if erasure.d != np.shape(X)[1]:
        raise UserError(
            f"{name}.fit stored a map of width {erasure.d}: the rows have width {np.shape(X)[1]}"
        )
    return own


ERASERS: Registry[type[BaseEraser]] = Registry(
    "eraser",
    "countergen_edit.erasers",
    {
        "inlp": "countergen_edit.erasers.methods.inlp:INLP",
        "rlace": "countergen_edit.erasers.methods.rlace:RLACE",
        "leace": "countergen_edit.erasers.methods.leace:LEACE",
        "splince": "countergen_edit.erasers.methods.splince:SPLINCE",
        "sal": "countergen_edit.erasers.methods.sal:SAL",
        "mean_difference": "countergen_edit.erasers.methods.mean_difference:MeanDifference",
        "sentence_debias": "countergen_edit.erasers.methods.sentence_debias:SentenceDebias",
        "preserving": "countergen_edit.erasers.methods.preserving:PreservingEraser",
        "gated": "countergen_edit.erasers.methods.gated:Gated",
        "refined": "countergen_edit.erasers.methods.refined:Refined",
        "random": "countergen_edit.erasers.methods.random_directions:RandomDirections",
    },
    BaseEraser,
)
"""Every eraser by its name in config; a user's own enters with `@ERASERS.register("mine")`."""


def make_eraser(name: str, **params: Any) -> BaseEraser:
    """The eraser registered under `name`, not yet fitted.

    Raises:
        UserError: no such eraser, or no such parameter; with the nearest valid name.

    >>> make_eraser("inlp", rank=4)
    INLP(rank=4)
    """
    eraser: BaseEraser = ERASERS.make(name, params)
    return eraser
