"""Curves and table of refinement losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from countergen_edit.metrics.refinement import LOSS, TITLES
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.reports.panels import Panel, Series, line
from countergen_edit.reports.views.base import View


def _by_seed(rows: Sequence[Row]) -> dict[float, list[Row]]:
    by_seed: dict[float, list[Row]] = {}
    for row in rows:
        by_seed.setdefault(float(row.facets["seed"]), []).append(row)
    return by_seed


def _lines(results: Results, curves: Mapping[str, Sequence[Row]]) -> list[Series]:
    lines = []
    for edit, rows in curves.items():
        by_seed = _by_seed(rows)
        for seed, of_seed in by_seed.items():
            name = results.label(edit) + (f", seed {seed:g}" if len(by_seed) > 1 else "")
            lines.append(line(name, [float(row.facets["step"]) for row in of_seed], of_seed))
    return lines


def _table(results: Results, curves: Mapping[str, Sequence[Row]]) -> Table:
    """Losses of the closed form and of the best map of each seed, with the spread over seeds."""
    lines: list[tuple[Cell, ...]] = []
    for edit, rows in curves.items():
        best = [min(of_seed, key=_value) for of_seed in _by_seed(rows).values()]
        chosen = min(best, key=_value)
        spread = float(np.std([_value(row) for row in best], ddof=1)) if len(best) > 1 else None
        for name, row in (("closed form", rows[0]), (f"step {chosen.facets['step']:g}", chosen)):
            terms = [Number(row.detail.get(term), digits=4) for term in TITLES]
            ends = Number(spread, digits=4) if row is chosen else Number(None)
            lines.append((results.label(edit), name, *terms, Number(row.value, digits=4), ends))
    columns = ("edit", "", *TITLES.values(), "loss", "spread over seeds")
    words = "Means over held-out contexts; the loss is their weighted sum."
    return Table("refinement", "Refinement, before and after", columns, tuple(lines), words)


def _value(row: Row) -> float:
    return float("inf") if row.value is None else row.value


class RefinementView(View):
    """Losses of refined edits, by step."""

    def sections(self, results: Results) -> list[Section]:
        """The curve of every refined edit that is shown, and where each began and ended."""
        curves = {edit.id: results.of(LOSS, "validation", edit.id) for edit in results.shown}
        curves = {edit: rows for edit, rows in curves.items() if rows}
        if not curves:
            return []
        panel = Panel("held-out loss", "step", "loss", tuple(_lines(results, curves)))
        words = "Weighted sum of what is wanted of the model, on names and texts held out."
        blocks: list[Block] = [
            Figure("refinement", "How refinement went", (panel,), words),
            _table(results, curves),
        ]
        return [Section("layers", "Layers and erasers", tuple(blocks))]
