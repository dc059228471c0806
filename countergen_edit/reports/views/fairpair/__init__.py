"""How `FairPair` is shown."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results, Side, State
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Section
from countergen_edit.reports.panels import Panel
from countergen_edit.reports.views.base import Quantity, View
from countergen_edit.reports.views.fairpair import figures, over_runs, show


class FairPairView(View):
    """The tables, figures and sentences of `FairPair`."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        return show.quantities(results, split)

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """F by each Φ, beside the F of no bias."""
        return figures.glance(states)

    def side_by_side(self, results: Results) -> list[Quantity]:
        """F by each Φ, and the share of perturbations that pass."""
        return [*show.quantities(results, "test"), *show.success(results)]

    def pooled(self, sides: Sequence[Side]) -> list[Row]:
        """Table 3's average over models."""
        return over_runs.pooled(sides)

    def over_runs(self, sides: Sequence[Side], pooled: Sequence[Row]) -> list[Section]:
        """Tables 1 to 3 and Figures 3 to 6 of all runs."""
        return over_runs.over_runs(sides, pooled)

    def sections(self, results: Results) -> list[Section]:
        return show.sections(results)

    def remaining(self, results: Results, edit: EditRecord) -> list[str]:
        """By which Φ texts for the two groups still differ under an edit."""
        return show.remaining(results, edit)

    def sentences(self, results: Results) -> list[str]:
        return show.sentences(results)
