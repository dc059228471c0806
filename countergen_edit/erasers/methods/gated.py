"""A closed form behind a gate: it acts where a group difference is to go, and nowhere else.

    π(x) = x - g(x) L R (x - m)        g(x) = min(1, max(0, w · x + b))

L, R and m are those of a closed form. g is a logistic probe (`erasers.gate`) that tells rows to be
erased from rows to be kept and from background, so that text about nobody, and grammar where the
probe sees it, is left exactly as it was. The closed form then has no demands to meet there, and can
take more of the difference where the gate is open. What the probe has not seen the like of it may
leave closed: a gated map carries over less to other kinds of text than the closed form alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.gate import Gate, fit_gate
from countergen_edit.erasers.labelled import read_features
from countergen_edit.erasers.starting import REQUESTED, closed_form, fit_start, kept
from countergen_edit.errors import UserError
from countergen_edit.registry import KIND

START: Mapping[str, Any] = {KIND: "preserving", "rank": "cv"}
"""The closed form unless given."""


class Gated(BaseEraser):
    """A closed form that acts in the measure in which a gate is open.

    Without rows to be kept and without background there is nothing to close at, and it is the
    closed form alone.

    Args:
        start: the eraser whose map is gated: its name, or a mapping with its `kind` and parameters.
            None takes `preserving` of the rank that serves contexts held out.
        spares_kept: whether the gate closes at rows to be kept, which the closed form then does not
            see, or at background alone.
        penalty: of the probe's squared weights, for features of unit variance.

    Attributes:
        gate_: the gate; None where there is nothing to close at.
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = REQUESTED
    no_guarantee_because = "rows at which the gate is not wholly open keep of their difference"

    def __init__(
        self,
        start: str | Mapping[str, Any] | None = None,
        *,
        spares_kept: bool = True,
        penalty: float = 0.01,
    ) -> None:
        self.start = start
        self.spares_kept = spares_kept
        self.penalty = penalty

    def check(self) -> None:
        """Refuse a penalty that is none, and a start that names no eraser.

        Raises:
            UserError: naming the setting.
        """
        super().check()
        if not (isinstance(self.penalty, int | float) and 0 < self.penalty < np.inf):
            raise UserError(f"penalty = {self.penalty!r} of gated: write a number above 0")
        self._closed_form.check()

    @property
    def _closed_form(self) -> BaseEraser:
        return closed_form(START if self.start is None else self.start, "gated")

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
        """Fit the closed form to rows `X` `[row, d]` of classes `y`, and the gate.

        Args:
            X: rows.
            y: their classes.
            contexts: an id per row, for closed forms that take it.
            keep: a boolean per row: those to be kept.
            background: rows `[other, d]` of whatever else the map meets.
            pairs: an id per row, for closed forms that take it.
            people: the same.
            families: the same.

        Raises:
            UserError: what the closed form or `check` refuses.
        """
        self.check()
        rows = self._read(X, y)
        is_kept = kept(rows, keep)
        of_row = {"contexts": contexts, "pairs": pairs, "people": people, "families": families}
        used = np.flatnonzero(~is_kept) if self.spares_kept else np.arange(len(is_kept))
        of_used = {k: None if v is None else np.asarray(v)[used] for k, v in of_row.items()}
        start = fit_start(self._closed_form, rows[used], is_kept[used], of_used, background)
        spared = rows.X[is_kept] if self.spares_kept else rows.X[:0]
        others = rows.X[:0]
        if background is not None:
            others = read_features(self, background).astype(np.float64)
        told = () if keep is None else ("keep",)  # the gate is fitted to it
        self.row_ids_ = tuple(dict.fromkeys((*start.row_ids_, *told)))
        self.gate_: Gate | None = None
        if len(spared) + len(others):
            self.gate_ = fit_gate(rows.X[~is_kept], spared, others, self.penalty)
        self._store(replace(start.erasure_, gate=self.gate_), rows.classes)
        return self
