"""The views of costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from countergen_edit.decisions import JUDGEMENT
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.costs.legitimate_differences import LEFT, OF_SET
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import Row, set_label
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.panels import Panel, ticks
from countergen_edit.reports.views.base import (
    CostView,
    Ends,
    Quantity,
    Shown,
)
from countergen_edit.reports.views.by_layer import SHARE


class KLView(CostView):
    """The divergence in tables; figures and sentences give perplexity, of the same text."""

    unit = "KL from the unedited model, nats per token"
    covers = (0.0, 0.05)
    drawn = False

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """Nothing."""
        return ""


class PerplexityView(CostView):
    """The ratio to the unedited model, and perplexity itself."""

    unit = "perplexity ratio (1 = unchanged)"
    covers = (1.0, 1.01)

    def shown(self, results: Results) -> tuple[Shown, ...]:
        """The ratio, then perplexity, which stands alone in a run without edits."""
        name, title = "perplexity", "perplexity of neutral text"
        if results.is_unedited:
            return (Shown(name, title, where="overview"),)
        return (*super().shown(results), Shown(name, title, where="card"))


class LegitimateDifferencesView(CostView):
    """The change of legitimate differences, over all sets and of each."""

    percent = True
    unit = "mean |change of P|, legitimate differences"

    @property
    def covers(self) -> Ends:  # type: ignore[override]
        return 0.0, self.metric.default_budget

    def shown(self, results: Results) -> tuple[Shown, ...]:
        """The change over all sets, then of each, and the group effect that is left."""
        titles = {OF_SET: self.title, LEFT: "group effect left of legitimate differences"}
        beside = (Shown(m, title, 4, percent=True, where="card") for m, title in titles.items())
        return (*super().shown(results), *beside)

    def about(self, row: Row) -> str:
        return set_label(row) if row.metric == OF_SET else ""


class AgreementView(CostView):
    """Agreement of both groups together, which figures draw, and of each, which tables list."""

    covers = SHARE

    def shown(self, results: Results) -> tuple[Shown, ...]:
        return tuple(replace(how, glance="Agreement") for how in super().shown(results))

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """Beside an edit, the axis holds the losses and the budget: most losses are small."""
        panels, results = super().glance(states), states[0].results
        if not panels or results.is_unedited:
            return panels
        budgets = dict(*(row.detail["budgets"] for row in results.of(JUDGEMENT)[:1]))
        budget, first = budgets.get(self.name, self.metric.default_budget), panels[0].series[0]
        mark = ticks("budget", {str(x): y - budget for x, y in zip(first.x, first.y, strict=True)})
        series, top = (*panels[0].series, mark), (max(first.y), max(first.y))
        return [replace(panels[0], title="Agreement (axis cut)", series=series, covers=top)]

    def about(self, row: Row) -> str:
        return f"{row.group_a} / {row.group_b}" if row.group_b else row.group_a

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        pairs = [
            (q, bool(next(iter(q.rows.values())).group_b))
            for q in super().quantities(results, split)
        ]
        return [replace(q, of="", main=not b, limits=SHARE, drawn=b) for q, b in pairs]

    def outcome(self, results: Results, edit: EditRecord) -> str:
        """Agreement of each group before and after."""
        changes = [
            f"{row.group_a} {Number.of(row).text} → {Number.of(after).text}"
            for row in results.unedited(self.metric.counts)
            if not row.group_b and (after := results.under(row, edit.id))
        ]
        return f"agreement {', '.join(changes)}" if changes else ""
