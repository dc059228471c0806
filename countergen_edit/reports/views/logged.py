"""The scores in logs of other tools."""

from __future__ import annotations

from countergen_edit.metrics.logged import FIGURE, SCORE
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.views.base import Shown, View


class LoggedView(View):
    """The mean score of every task and metric."""

    shows = (Shown(SCORE, "score", where="overview", drawn=True),)
    place = "logged", "Scores"

    def about(self, row: Row) -> str:
        return f"{row.dataset}, {row.facets[FIGURE]}"
