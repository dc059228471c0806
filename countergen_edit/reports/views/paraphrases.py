"""How far conclusions depend on how prompts are worded (Seshadri et al. 2022), drawn and listed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.base import Quantity, View, alike
from countergen_edit.reports.views.stacked import stacked

SPREAD = "r_sd_over_paraphrases"
LEANS = {1: "alike", -1: "against", 0: "insignificant"}


def paraphrases(results: Results) -> list[Section]:
    """Spread over templates; nothing where no set is paraphrased."""
    rows = [row for split in ("test", "fit") for row in results.unedited(SPREAD, split)]
    rows = [row for row in rows if row.value is not None]
    if not rows:
        return []
    edits = [
        edit
        for edit in results.compared
        if any(results.under(row, edit) is not None for row in rows)
    ]
    panels = []
    for row in rows:
        series = tuple(_spread(results, row, edit) for edit in edits)
        panels.append(Panel(set_label(row), "mean |R| of a template", "", series, limits=(0, 1)))
    words = "Every dot is one template of the prompts; boxes are quartiles."
    blocks = (
        Words(tuple(conclusions(results)), brief=True),
        Figure("paraphrases", "Bias, template by template", tuple(panels), words),
        _by_set(results, rows, edits),
        _by_paraphrase(results, rows, edits),
    )
    return [Section("paraphrases", "Paraphrases", blocks)]


def over_runs(sides: Sequence[Side]) -> list[Section]:
    """Spread over templates, set by set and run by run; nothing where no run has a paraphrased
    set.
    """
    table = stacked(sides, _by_set_of)
    return [Section("paraphrases", "Paraphrases", (table,))] if table else []


def compared(results: Results) -> list[Quantity]:
    """How many conclusions flip from template to template, set by set."""
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


def _by_set_of(results: Results) -> Table | None:
    rows = [row for row in results.unedited(SPREAD) if row.value is not None]
    edits = [edit for edit in results.compared if any(results.under(row, edit) for row in rows)]
    return _by_set(results, rows, edits) if rows else None


def conclusions(results: Results) -> list[str]:
    """On how many templates the conclusions hold, before and after each edit."""
    sentences = []
    for edit in (UNEDITED, *(record.id for record in results.shown)):
        holds = results.of("paraphrases_holding", edit=edit)
        flips = results.of("paraphrase_flip_rate", edit=edit)
        if not holds:
            continue
        compared = sum(row.n for row in flips)
        rate = sum((row.value or 0) * row.n for row in flips) / compared if compared else None
        state = "Before any edit" if edit == UNEDITED else f"After {results.label(edit)}"
        outputs = "Outputs" if results.is_unedited else f"{state} outputs"
        text = (
            f"{outputs} lean the way the other templates say on {counted(holds)} templates; "
            f"{_percent(rate)} of conclusions about single outputs flip from template to template"
        )
        if found := holding(results, edit):
            text += f". Outside the fit mean |R| {found}"
        gap = next(iter(results.of("reduction_gap", edit=edit)), None)
        if gap is not None and gap.value is not None:
            text += (
                f" ({_percent(gap.detail['test'])} of mean |R| there, "
                f"{_percent(gap.detail['fit'])} on what was fitted)"
            )
        sentences.append(text + ".")
    return sentences


def holding(results: Results, edit: str) -> str:
    """On how many templates outside the fit an edit lowers mean |R|; empty where unknown."""
    some, half = (results.of(m, edit=edit) for m in ("reduction_holding", "halving_holding"))
    if not some:
        return ""
    shown = sum(int(row.value or 0) for row in half)
    return f"is shown to fall on {counted(some)} templates, by half or more on {shown}"


def counted(rows: Sequence[Row]) -> str:
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


def _by_set(results: Results, rows: Sequence[Row], edits: Sequence[str]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        for edit in edits:

            def of(metric: str, row: Row = row, edit: str = edit) -> Row | None:
                return results.under(row, edit, metric)

            lines.append(
                (
                    set_label(row),
                    results.label(edit),
                    Number.of(of(SPREAD)),
                    _count(of("paraphrases_holding")),
                    Number.of(of("paraphrase_flip_rate"), percent=True),
                    Number.of(of("paraphrase_variance_share"), percent=True),
                    _count(of("reduction_holding")),
                    _count(of("halving_holding")),
                )
            )
    return Table(
        "paraphrases",
        "Over templates",
        (
            "set",
            "edit",
            "SD of mean |R|",
            "templates that lean alike",
            "conclusions that flip",
            "variance between templates",
            "templates where it falls",
            "by half or more",
        ),
        tuple(lines),
        grouped=True,
        brief=True,
    )


def _count(row: Row | None) -> str:
    return "" if row is None or row.value is None else counted([row])


def _by_paraphrase(results: Results, rows: Sequence[Row], edits: Sequence[str]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        under = [(edit, results.under(row, edit)) for edit in edits]
        by_edit = [
            [(edit, w) for w in of_edit.detail.get("paraphrases", [])]
            for edit, of_edit in under
            if of_edit is not None
        ]
        for of_paraphrase in zip_longest(*by_edit):  # before and after below each other
            for edit, w in filter(None, of_paraphrase):
                lines.append(
                    (
                        set_label(row),
                        str(w["paraphrase"]),
                        results.label(edit),
                        Number(w["r"], signed=True),
                        Number(w["mean_abs_r"]),
                        LEANS.get(w["leans"], ""),
                        *(str(w[side]) for side in ("a", "b", "insignificant")),
                    )
                )
    a, b = rows[0].group_a, rows[0].group_b
    sides = (f"outputs likelier after {a}", f"after {b}", "insignificant")
    return Table(
        "paraphrase_by_paraphrase",
        "Template by template",
        ("set", "paraphrase", "edit", "mean R", "mean |R|", "leans", *sides),
        tuple(lines),
        searchable=True,
        grouped=True,
    )


class ParaphrasesView(View):
    """The tables, figures and sentences of `Paraphrases`."""

    def side_by_side(self, results: Results) -> list[Quantity]:
        """How many conclusions flip from template to template, set by set."""
        return compared(results)

    def over_runs(self, sides: Sequence[Side], pooled: Sequence[Row]) -> list[Section]:
        """The spread of every set and run."""
        return over_runs(sides)

    def sections(self, results: Results) -> list[Section]:
        """The spread of every set, and every template."""
        return paraphrases(results)

    def sentences(self, results: Results) -> list[str]:
        """On how many templates each edit is shown to lower bias, by how much."""
        held = [
            f"{edit.name_in_text} {found}"
            for edit in results.shown
            if (found := holding(results, edit.id))
        ]
        return [f"Mean |R| outside the fit: under {'; under '.join(held)}."] if held else []
