"""The view of paraphrases: how much conclusions depend on the template (Seshadri et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.base import Quantity, View, alike

SPREAD = "r_sd_over_paraphrases"
COLUMNS = (
    "set",
    "edit",
    "SD of mean |R|",
    "templates that lean alike",
    "conclusions that flip",
    "variance between templates",
    "templates where it falls",
    "by half or more",
)


class ParaphrasesView(View):
    """The tables, figures and sentences of `Paraphrases`."""

    def side_by_side(self, results: Results) -> list[Quantity]:
        """The share of conclusions that flip from template to template, set by set."""
        return [
            Quantity(
                f"conclusions that flip, {set_label(row)}",
                alike(results, row),
                "other",
                percent=True,
                main=False,
            )
            for row in results.unedited("paraphrase_flip_rate")
        ]

    def sections(self, results: Results) -> list[Section]:
        """The spread of every set over its templates."""
        rows = [row for split in ("test", "fit") for row in results.unedited(SPREAD, split)]
        rows = [row for row in rows if row.value is not None]
        if not rows:
            return []
        panels, lines = [], []
        for row in rows:
            edits = [edit for edit in results.compared if results.under(row, edit) is not None]
            series = tuple(_spread(results, row, edit) for edit in edits)
            title, axis = set_label(row), "mean |R| of a template"
            panels.append(Panel(title, axis, "", series, limits=(0, 1)))
            lines += [_line(results, row, edit) for edit in edits]
        words = "Every dot is one template of the prompts; boxes are quartiles."
        name = "paraphrases"
        blocks = (
            Words(tuple(_conclusions(results)), brief=True),
            Figure(name, "Bias, template by template", tuple(panels), words),
            Table(name, "Over templates", COLUMNS, tuple(lines), grouped=True, brief=True),
        )
        return [Section(name, "Paraphrases", blocks)]

    def sentences(self, results: Results) -> list[str]:
        """The number of templates on which each edit lowers bias."""
        held = [
            f"{edit.name_in_text} {found}"
            for edit in results.shown
            if (found := _holding(results, edit.id))
        ]
        return [f"Mean |R| outside the fit: under {'; under '.join(held)}."] if held else []


def _conclusions(results: Results) -> list[str]:
    """The number of templates on which conclusions hold, before and after each edit."""
    sentences = []
    for edit in (UNEDITED, *(record.id for record in results.shown)):
        holds = results.of("paraphrases_holding", edit=edit)
        flips = results.of("paraphrase_flip_rate", edit=edit)
        if not holds:
            continue
        pairs = sum(row.n for row in flips)
        rate = sum((row.value or 0) * row.n for row in flips) / pairs if pairs else None
        state = "Before any edit" if edit == UNEDITED else f"After {results.label(edit)}"
        outputs = "Outputs" if results.is_unedited else f"{state} outputs"
        text = (
            f"{outputs} lean in the direction of the other templates on {_counted(holds)} "
            f"templates; {_percent(rate)} of conclusions about single outputs flip from template "
            "to template"
        )
        if found := _holding(results, edit):
            text += f". Outside the fit mean |R| {found}"
        gap = next(iter(results.of("reduction_gap", edit=edit)), None)
        if gap is not None and gap.value is not None:
            text += (
                f" ({_percent(gap.detail['test'])} of mean |R| there, "
                f"{_percent(gap.detail['fit'])} on the fitted sets)"
            )
        sentences.append(text + ".")
    return sentences


def _holding(results: Results, edit: str) -> str:
    """The number of templates outside the fit on which an edit lowers mean |R|."""
    some, half = (results.of(m, edit=edit) for m in ("reduction_holding", "halving_holding"))
    if not some:
        return ""
    shown = sum(int(row.value or 0) for row in half)
    return f"is shown to fall on {_counted(some)} templates, by half or more on {shown}"


def _counted(rows: Sequence[Row]) -> str:
    """Templates of several sets together, as "44 of 48"."""
    return f"{sum(int(row.value or 0) for row in rows)} of {sum(row.n for row in rows)}"


def _percent(value: float | None) -> str:
    return Number(value, percent=True).text


def _spread(results: Results, row: Row, edit: str) -> Series:
    """Mean |R| of each template of a set."""
    of_edit = results.under(row, edit)
    paraphrases = [] if of_edit is None else of_edit.detail.get("paraphrases", [])
    name = results.label(edit)
    return Series(
        name,
        (),
        tuple(float(w["mean_abs_r"]) for w in paraphrases),
        kind="spread",
        baseline=edit == UNEDITED,
        tips=tuple(f"{name}, {w['paraphrase']}: {w['mean_abs_r']:.3f}" for w in paraphrases),
    )


def _line(results: Results, row: Row, edit: str) -> tuple[Cell, ...]:
    def of(metric: str) -> Row | None:
        return results.under(row, edit, metric)

    def count(metric: str) -> str:
        found = of(metric)
        return "" if found is None or found.value is None else _counted([found])

    return (
        set_label(row),
        results.label(edit),
        Number.of(of(SPREAD)),
        count("paraphrases_holding"),
        Number.of(of("paraphrase_flip_rate"), percent=True),
        Number.of(of("paraphrase_variance_share"), percent=True),
        count("reduction_holding"),
        count("halving_holding"),
    )
