"""The view of `Agreement`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number, Section
from countergen_edit.reports.panels import Panel, state_panels
from countergen_edit.reports.views.base import CostView, Quantity, alike
from countergen_edit.reports.views.by_layer import SHARE, layer_figures


def _who(row: Row) -> str:
    return "both groups" if row.group_b else row.group_a


class AgreementView(CostView):
    """Agreement of each group and of both together."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """Both groups together, which figures draw, and each group, which tables list."""
        return [
            Quantity(
                f"{self.title}, {_who(row)}",
                alike(results, row),
                "cost",
                main=not row.group_b,
                limits=SHARE,
                covers=SHARE,
                drawn=bool(row.group_b),
            )
            for row in results.unedited(self.metric.counts, split)
        ]

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """Each group and both together; of several pairs of groups each pair."""

        def of(state: State) -> dict[Hashable, Row]:
            rows = state.results.of(self.metric.counts, edit=state.edit)
            return {(row.group_a, row.group_b): row for row in rows}

        rows = of(states[0]).values()
        several = sum(bool(row.group_b) for row in rows) > 1
        labels: dict[Hashable, str] = {
            (row.group_a, row.group_b): f"{row.group_a} / {row.group_b}" if several else _who(row)
            for row in rows
            if row.group_b or not several
        }
        return state_panels("Agreement", self.title, states, labels, of, limits=SHARE)

    def sections(self, results: Results) -> list[Section]:
        """Agreement under an edit at each layer."""
        figures = layer_figures(
            results,
            self.metric.counts,
            name="layers_agreement",
            heading="Agreement under an edit at each layer",
            y_label=self.title,
            title=lambda row: f"agreement, {_who(row)}",
            about=lambda row: bool(row.group_b),
        )
        return [Section("layers", "Layers and erasers", tuple(figures))] if figures else []

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """Agreement of each group before and after."""
        changes = [
            f"{row.group_a} {Number.of(row).text} → {Number.of(after).text}"
            for row in results.unedited(self.metric.counts)
            if not row.group_b and (after := results.under(row, edit.id))
        ]
        return f"agreement {', '.join(changes)}" if changes else ""
