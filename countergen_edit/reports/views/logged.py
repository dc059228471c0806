"""Table of the scores in logs of other tools."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.logged import FIGURE, SCORE
from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Number, Section, Table
from countergen_edit.reports.views.base import Quantity, View, alike

MOST = 6
"""Figures shown as columns; more get a table of their own."""


class LoggedView(View):
    """Mean scores by task and metric."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The mean of every task and metric, where they are few."""
        rows = results.unedited(SCORE, split)
        return [
            Quantity(f"{row.dataset}, {row.facets[FIGURE]}", alike(results, row), "other")
            for row in (rows if len(rows) <= MOST else ())
        ]

    def over_runs(self, sides: Sequence[Side], pooled: Sequence[Row]) -> list[Section]:
        """A line for every task and metric, a column for each log."""
        by_side = [{row.key: row for row in side.results.unedited(SCORE)} for side in sides]
        every = list({key: row for rows in by_side for key, row in rows.items()}.values())
        if not every:
            return []
        lines: list[tuple[Cell, ...]] = []
        for row in every:
            cells = [Number.of(rows.get(row.key)) for rows in by_side]
            lines.append((row.dataset, str(row.facets[FIGURE]), *cells))
        columns = ("task", "metric", *(side.name for side in sides))
        note = "Means over all items of each log, whether others have them or not."
        table = Table("logged", "Scores", columns, tuple(lines), note, grouped=True)
        return [Section("logged", "Scores", (table,))]
