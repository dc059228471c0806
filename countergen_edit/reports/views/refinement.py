"""The view of refinement losses."""

from __future__ import annotations

from countergen_edit.metrics.refinement import LOSS
from countergen_edit.metrics.results import Results
from countergen_edit.reports.blocks import Section
from countergen_edit.reports.views.base import View, as_figure, as_section, grouped, lines_along


class RefinementView(View):
    """Losses of refined edits, by step."""

    def sections(self, results: Results) -> list[Section]:
        """The curve of every refined edit that is shown, seed by seed."""
        rows = [row for row in results.of(LOSS, "validation") if row.edit in results.compared]
        panels = [
            lines_along(results, own, "step", f"seed {seed:g}", "step", "held-out loss")
            for seed, own in grouped(rows, lambda row: row.facets["seed"]).items()
        ]
        note = "Weighted sum of what is wanted of the model, on names and texts held out."
        losses = as_figure("refinement", "How refinement went", panels, note)
        return as_section("layers", "Layers and erasers", losses)
