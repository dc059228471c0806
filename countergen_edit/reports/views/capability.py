"""The view of accuracy on questions."""

from __future__ import annotations

from countergen_edit.metrics.capability import ACCURACY, CHANGE, OF_KIND
from countergen_edit.metrics.rows import Row, set_label
from countergen_edit.reports.views.base import Shown, View


class CapabilityView(View):
    """Accuracy on all questions and the change of P(right); on the page, each kind."""

    shows = (
        Shown(ACCURACY, "accuracy, chance 25 %", percent=True, where="overview"),
        Shown(CHANGE, "change of P(right answer)", 4, percent=True, signed=True, where="overview"),
        Shown(OF_KIND, "accuracy by kind", percent=True, drawn=True),
    )
    note = "Intervals are 95 %: of accuracy exact, of the change over questions."

    def about(self, row: Row) -> str:
        return set_label(row) if row.metric == OF_KIND else ""
