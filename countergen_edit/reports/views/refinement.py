"""Curves of refinement losses."""

from __future__ import annotations

from itertools import groupby

from countergen_edit.metrics.refinement import LOSS
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Section
from countergen_edit.reports.panels import Panel, line
from countergen_edit.reports.views.base import View, as_figure, as_section


class RefinementView(View):
    """Losses of refined edits, by step."""

    def sections(self, results: Results) -> list[Section]:
        """The curve of every refined edit that is shown."""
        curves = [
            [*rows]
            for edit in results.shown
            for _, rows in groupby(results.of(LOSS, "validation", edit.id), _seed)
        ]
        lines = [
            line(f"{results.label(rows[0].edit)}, seed {_seed(rows[0]):g}", steps, rows)
            for rows in curves
            for steps in [[float(row.facets["step"]) for row in rows]]
        ]
        panels = [Panel("held-out loss", "step", "loss", tuple(lines))] if lines else []
        note = "Weighted sum of what is wanted of the model, on names and texts held out."
        return as_section(
            "layers",
            "Layers and erasers",
            as_figure("refinement", "How refinement went", panels, note),
        )


def _seed(row: Row) -> float:
    return float(row.facets["seed"])
