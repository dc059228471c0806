"""Table of the scores in logs of other tools."""

from __future__ import annotations

from countergen_edit.metrics.logged import FIGURE, SCORE
from countergen_edit.metrics.results import Results
from countergen_edit.reports.views.base import Quantity, View, alike

MOST = 6
"""Figures shown as columns; more are compared item by item alone."""


class LoggedView(View):
    """Mean scores by task and metric."""

    def quantities(self, results: Results, split: str = "test") -> list[Quantity]:
        """The mean of every task and metric, where they are few."""
        rows = results.unedited(SCORE, split)
        return [
            Quantity(f"{row.dataset}, {row.facets[FIGURE]}", alike(results, row), "other")
            for row in (rows if len(rows) <= MOST else ())
        ]
