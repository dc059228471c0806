"""A closed form behind a gate, which acts only where a group difference is to be erased.

    π(x) = x - g(x) L R (x - m)        g(x) = min(1, max(0, w · x + b))

L, R and m are those of a closed form; g is a logistic probe that separates rows to erase from rows
to keep and from background. On kinds of text that it has not seen, the gate may stay closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt
from jaxtyping import Float
from sklearn.preprocessing import StandardScaler

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import KIND
from countergen_edit.erasers.affine import Gate
from countergen_edit.erasers.base import BaseEraser, fit_metadata, make_eraser
from countergen_edit.erasers.labelled import LabelledRows, read_background
from countergen_edit.erasers.logistic import fit_probe

_HALF = 0.5
"""Least opening of the gate at even odds."""
REACH = 0.9
"""How far the gate opens, of the way from there to the nearest row at which it is to be closed."""
_SHARES = (0.5, 0.4, 0.1)
"""Total weights of rows to erase, rows to keep (few, and hard to separate) and background."""


def fit_gate(
    opened: Float[np.ndarray, "row d"],
    keep: Float[np.ndarray, "kept d"],
    background: Float[np.ndarray, "other d"],
    penalty: float,
) -> Gate:
    """The gate of a logistic probe: its log odds plus a constant, clipped to [0, 1].

    The constant is `_HALF`, or more where no row to keep or of the background is near: `REACH` of
    what would begin to open at the nearest.
    """
    kinds = (opened, keep, background)
    rows = np.vstack(kinds)
    sizes = [len(kind) for kind in kinds]
    weights = np.repeat(np.divide(_SHARES, np.maximum(sizes, 1)), sizes)
    is_open = np.repeat([1, 0, 0], sizes)
    weights[is_open == 0] *= weights[is_open == 1].sum() / weights[is_open == 0].sum()
    scaler = StandardScaler()
    scaled = LabelledRows(scaler.fit_transform(rows), is_open, np.arange(2))
    probe = fit_probe(scaled, penalty, weights=weights)
    weight = probe.weights[:, 0] / scaler.scale_
    bias = float(probe.intercept[0] - weight @ scaler.mean_)
    nearest = float((rows[is_open == 0] @ weight).max()) + bias
    return Gate(weight, bias + _HALF + REACH * max(0.0, -nearest - _HALF))


@dataclass(eq=False, repr=False)
class Gated(BaseEraser):
    """A closed form times a gate; without rows to keep and background, the closed form alone.

    Parameters
    ----------
    start : the closed form: a name, or a mapping with its `kind` and parameters
    penalty : of the probe's squared weights, for features of unit variance

    Attributes
    ----------
    gate_ : None if there is nothing to close at
    """

    default: ClassVar[Mapping[str, Any]] = {KIND: "preserving", "rank": "cv"}
    no_guarantee_because = "rows at which the gate is not wholly open keep of their difference"
    folds = False

    start: str | Mapping[str, Any] | None = None
    _: KW_ONLY
    penalty: Annotated[float, Gt(0)] = 0.01

    @property
    def closed_form(self) -> BaseEraser:
        """The closed form, not yet fitted."""
        start = self.default if self.start is None else self.start
        content = {KIND: start} if isinstance(start, str) else dict(start)
        if KIND not in content:
            raise UserError(f"start={start!r} of gated names no eraser: give its {KIND}")
        return make_eraser(str(content.pop(KIND)), **content)

    def check(self) -> None:
        super().check()
        self.closed_form.check()

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        contexts: Any = None,
        keep: Any = None,
        background: Any = None,
        pairs: Any = None,
        people: Any = None,
        families: Any = None,
    ) -> Gated:
        """Fit the closed form to rows to erase of `X` `[n, d]`, classes `y`; then the gate."""
        rows = self._read(X, y)
        kept = np.zeros(len(rows.X), bool) if keep is None else np.asarray(keep, bool)
        per_row = {"contexts": contexts, "keep": kept, "pairs": pairs, "people": people}
        per_row["families"] = families
        metadata = {k: np.asarray(v)[~kept] for k, v in per_row.items() if v is not None}
        if background is not None:
            metadata["background"] = background
        start = self.closed_form
        start.fit(rows.X[~kept], rows.classes[rows.codes][~kept], **fit_metadata(start, metadata))
        self.row_ids_ = tuple(dict.fromkeys([*start.row_ids_, *(["keep"] * (keep is not None))]))
        other_text = read_background(self, rows.X, background)[len(rows.X) :]
        self.gate_: Gate | None = None
        if kept.any() or len(other_text):
            self.gate_ = fit_gate(rows.X[~kept], rows.X[kept], other_text, self.penalty)
        self._store(replace(start.erasure_, gate=self.gate_), rows.classes)
        return self
