"""The view of paraphrases: how much conclusions depend on the template (Seshadri et al. 2022)."""

from __future__ import annotations

from countergen_edit.metrics.results import Results
from countergen_edit.reports.views.base import Shown, View


class ParaphrasesView(View):
    """The table, figure and sentence of `Paraphrases`."""

    shows = (
        Shown("r_sd_over_paraphrases", "SD of mean |R| over templates", drawn=True),
        Shown("paraphrases_holding", "templates that lean alike", 0),
        Shown("paraphrase_flip_rate", "conclusions that flip", percent=True, where="card"),
        Shown("paraphrase_variance_share", "variance between templates", percent=True),
        Shown("reduction_holding", "templates where mean |R| falls", 0),
        Shown("halving_holding", "templates where it falls by half or more", 0),
    )
    place = "paraphrases", "Paraphrases"
    note = "Conclusions are about single outputs, from template to template."
    brief = True

    def sentences(self, results: Results) -> list[str]:
        """The number of templates on which each edit lowers bias."""
        held = [
            f"{edit.name_in_text} {found}"
            for edit in results.shown
            if (found := _holding(results, edit.id))
        ]
        return [f"Mean |R|: under {'; under '.join(held)}."] if held else []


def _holding(results: Results, edit: str) -> str:
    """The number of templates on which an edit lowers mean |R|."""
    some, half = (results.of(m, edit=edit) for m in ("reduction_holding", "halving_holding"))
    if not some:
        return ""
    falls, halves = (sum(int(row.value or 0) for row in rows) for rows in (some, half))
    templates = sum(row.n for row in some)
    return f"is shown to fall on {falls} of {templates} templates, by half or more on {halves}"
