"""The view of `LegitimateDifferences`."""

from __future__ import annotations

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.costs.legitimate_differences import LEFT, OF_SET
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import set_label
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.views.base import CostView, Quantity, alike


class LegitimateDifferencesView(CostView):
    """The change of legitimate differences, over all sets and of each."""

    percent = True
    axis = "mean |change of P| of facts, as a share"

    @property
    def covers(self) -> tuple[float, float]:  # type: ignore[override]
        return 0.0, self.metric.default_budget

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The change over all sets, then of each, and the group effect that is left."""
        listed = [
            *((f"{self.title}, {set_label(r)}", r) for r in results.unedited(OF_SET, split)),
            *(("group effect of facts that is left", r) for r in results.unedited(LEFT, split)),
        ]
        return super().quantities(results, split) + [
            Quantity(
                title,
                alike(results, row),
                "cost",
                self.metric.digits,
                percent=True,
                main=False,
                drawn=False,
            )
            for title, row in listed
        ]

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """The mean and the largest change, and the share of the group effect that is left."""
        moved = next(iter(results.of(self.metric.counts, "test", edit.id)), None)
        left = next(iter(results.of(LEFT, "test", edit.id)), None)
        if moved is None or moved.value is None:
            return ""
        text = (
            f"facts moved by {100 * moved.value:.1f} points "
            f"({100 * moved.detail['largest']:.1f} at most)"
        )
        if left is None or left.value is None:
            return text
        return f"{text} with {Number.of(left, percent=True).text} of their group effect left"
