"""How `Cid` is shown."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.results import Results, Side, State
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Section
from countergen_edit.reports.panels import Panel
from countergen_edit.reports.views.base import Quantity, View
from countergen_edit.reports.views.cid import over_runs, sections


class CidView(View):
    """The tables, figures and sentences of `Cid`."""

    def glance(self, states: Sequence[State]) -> list[Panel]:
        """The divergence of the two sides, by λ."""
        return sections.glance(states)

    def side_by_side(self, results: Results) -> list[Quantity]:
        """Divergence at the smallest and the largest λ, and there what a lexicon calls biased."""
        return over_runs.compared(results)

    def over_runs(self, sides: Sequence[Side], pooled: Sequence[Row]) -> list[Section]:
        """Figures 2, 6 and 7 of all runs, and how far apart their sides are."""
        return over_runs.over_runs(sides)

    def sections(self, results: Results) -> list[Section]:
        """The tab `cid`, and every continuation under `examples`."""
        return sections.sections(results)

    def sentences(self, results: Results) -> list[str]:
        """What each edit leaves of the divergence that contrastive decoding brings out."""
        return sections.sentences(results)
