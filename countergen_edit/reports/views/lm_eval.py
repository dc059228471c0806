"""The view of lm-evaluation-harness's tasks."""

from __future__ import annotations

from countergen_edit.metrics.lm_eval import CHANGES, LOSS, SCORE
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.views.base import Shown, View


class LmEvalView(View):
    """Each figure of each task, and its change under an edit."""

    shows = (
        Shown(SCORE, "lm-eval, higher is better", where="overview", drawn=True),
        Shown(CHANGES[SCORE], "change of lm-eval, higher is better", signed=True, where="overview"),
        Shown(LOSS, "lm-eval, lower is better", where="overview", drawn=True),
        Shown(CHANGES[LOSS], "change of lm-eval, lower is better", signed=True, where="overview"),
    )
    note = "Tasks, prompts and figures are lm-eval's. Intervals are 95 %, over documents."

    def about(self, row: Row) -> str:
        of = "" if row.facets["filter"] == "none" else f" ({row.facets['filter']})"
        return f"{row.dataset} {row.facets['figure']}{of}"
