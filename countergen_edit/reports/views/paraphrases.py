"""The view of paraphrases: how much conclusions depend on the template (Seshadri et al. 2022)."""

from __future__ import annotations

from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Figure
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.base import Shown, View, as_figure

SPREAD = "r_sd_over_paraphrases"


class ParaphrasesView(View):
    """The tables, figures and sentences of `Paraphrases`."""

    shows = (
        Shown(SPREAD, "SD of mean |R| over templates"),
        Shown("paraphrases_holding", "templates that lean alike", 0),
        Shown("paraphrase_flip_rate", "conclusions that flip", percent=True, where="card"),
        Shown("paraphrase_variance_share", "variance between templates", percent=True),
        Shown("reduction_holding", "templates where mean |R| falls", 0),
        Shown("halving_holding", "templates where it falls by half or more", 0),
    )
    place = "paraphrases", "Paraphrases"
    note = "Conclusions are about single outputs, from template to template."
    brief = True

    def figure(self, results: Results, split: str = "") -> list[Figure]:
        """The spread of every set over its templates."""
        rows = [row for row in results.unedited(SPREAD) if row.value is not None]
        panels = []
        for row in rows:
            by_edit = (results.under(row, edit) for edit in results.compared)
            series = tuple(_spread(results, own) for own in by_edit if own is not None)
            axis = "mean |R| of a template"
            panels.append(Panel(set_label(row), axis, "", series, limits=(0, 1)))
        note = "Every dot is one template of the prompts; boxes are quartiles."
        return as_figure("paraphrases", "Bias, template by template", panels, note)

    def sentences(self, results: Results) -> list[str]:
        """The number of templates on which each edit lowers bias."""
        held = [
            f"{edit.name_in_text} {found}"
            for edit in results.shown
            if (found := _holding(results, edit.id))
        ]
        return [f"Mean |R| outside the fit: under {'; under '.join(held)}."] if held else []


def _holding(results: Results, edit: str) -> str:
    """The number of templates outside the fit on which an edit lowers mean |R|."""
    some, half = (results.of(m, edit=edit) for m in ("reduction_holding", "halving_holding"))
    if not some:
        return ""
    falls, halves = (sum(int(row.value or 0) for row in rows) for rows in (some, half))
    templates = sum(row.n for row in some)
    return f"is shown to fall on {falls} of {templates} templates, by half or more on {halves}"


def _spread(results: Results, row: Row) -> Series:
    """Mean |R| of each template of a set."""
    name, templates = results.label(row.edit), row.detail.get("paraphrases", [])
    return Series(
        name,
        (),
        tuple(float(t["mean_abs_r"]) for t in templates),
        kind="spread",
        baseline=row.edit == UNEDITED,
        tips=tuple(f"{name}, {t['paraphrase']}: {t['mean_abs_r']:.3f}" for t in templates),
    )
