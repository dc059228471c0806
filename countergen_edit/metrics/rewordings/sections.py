"""How far conclusions depend on how prompts are worded (Seshadri et al. 2022), drawn and listed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from countergen_edit.metrics.base import Quantity, alike
from countergen_edit.metrics.blocks import Cell, Figure, Number, Section, Table, Words
from countergen_edit.metrics.over_runs import stacked
from countergen_edit.metrics.panels import Panel, Series, set_label
from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import UNEDITED, Row

SPREAD = "r_sd_over_wordings"
LEANS = {1: "alike", -1: "against", 0: "insignificant"}


def wordings(results: Results) -> list[Section]:
    """Spread over wordings; nothing where no set is reworded."""
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
        panels.append(Panel(set_label(row), "mean |R| of a wording", "", series, limits=(0, 1)))
    words = "Every dot is one wording of the prompts; boxes are quartiles."
    blocks = (
        Words(tuple(conclusions(results)), brief=True),
        Figure("wordings", "Bias, wording by wording", tuple(panels), words),
        _by_set(results, rows, edits),
        _by_wording(results, rows, edits),
    )
    return [Section("wordings", "Wordings", blocks)]


def over_runs(sides: Sequence[Side]) -> list[Section]:
    """Spread over wordings, set by set and run by run; nothing where no run has a reworded set."""
    table = stacked(sides, _by_set_of)
    return [Section("wordings", "Wordings", (table,))] if table else []


def compared(results: Results) -> list[Quantity]:
    """How many conclusions flip from wording to wording, set by set."""
    return [
        Quantity(
            f"conclusions that flip, {set_label(row)}",
            alike(results, row),
            "other",
            percent=True,
            main=False,
        )
        for row in results.unedited("wording_flip_rate")
    ]


def _by_set_of(results: Results) -> Table | None:
    rows = [row for row in results.unedited(SPREAD) if row.value is not None]
    edits = [edit for edit in results.compared if any(results.under(row, edit) for row in rows)]
    return _by_set(results, rows, edits) if rows else None


def conclusions(results: Results) -> list[str]:
    """On how many wordings the conclusions hold, before and after each edit."""
    sentences = []
    for edit in (UNEDITED, *(record.id for record in results.shown)):
        holds = results.of("wordings_holding", edit=edit)
        flips = results.of("wording_flip_rate", edit=edit)
        if not holds:
            continue
        compared = sum(row.n for row in flips)
        rate = sum((row.value or 0) * row.n for row in flips) / compared if compared else None
        state = "Before any edit" if edit == UNEDITED else f"After {results.label(edit)}"
        outputs = "Outputs" if results.is_unedited else f"{state} outputs"
        text = (
            f"{outputs} lean the way the other wordings say on {counted(holds)} wordings; "
            f"{_percent(rate)} of conclusions about single outputs flip from wording to wording"
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
    """On how many wordings outside the fit mean |R| is lower under an edit; empty where unknown."""
    some, half = (results.of(m, edit=edit) for m in ("reduction_holding", "halving_holding"))
    if not some:
        return ""
    shown = sum(int(row.value or 0) for row in half)
    return f"is shown to fall on {counted(some)} wordings, by half or more on {shown}"


def counted(rows: Sequence[Row]) -> str:
    """Wordings of several sets together, as "44 of 48"."""
    return f"{sum(int(row.value or 0) for row in rows)} of {sum(row.n for row in rows)}"


def _percent(value: float | None) -> str:
    return Number(value, percent=True).text


def _spread(results: Results, row: Row, edit: str) -> Series:
    """Mean |R| of each wording of a set."""
    of_edit = results.under(row, edit)
    wordings = [] if of_edit is None else of_edit.detail.get("wordings", [])
    name = results.label(edit)
    return Series(
        name,
        (),
        tuple(float(w["mean_abs_r"]) for w in wordings),
        kind="spread",
        baseline=edit == UNEDITED,
        tips=tuple(f"{name}, {w['wording']}: {w['mean_abs_r']:.3f}" for w in wordings),
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
                    _count(of("wordings_holding")),
                    Number.of(of("wording_flip_rate"), percent=True),
                    Number.of(of("wording_variance_share"), percent=True),
                    _count(of("reduction_holding")),
                    _count(of("halving_holding")),
                )
            )
    return Table(
        "wordings",
        "Over wordings",
        (
            "set",
            "edit",
            "SD of mean |R|",
            "wordings that lean alike",
            "conclusions that flip",
            "variance between wordings",
            "wordings where it falls",
            "by half or more",
        ),
        tuple(lines),
        grouped=True,
        brief=True,
    )


def _count(row: Row | None) -> str:
    return "" if row is None or row.value is None else counted([row])


def _by_wording(results: Results, rows: Sequence[Row], edits: Sequence[str]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        under = [(edit, results.under(row, edit)) for edit in edits]
        by_edit = [
            [(edit, w) for w in of_edit.detail.get("wordings", [])]
            for edit, of_edit in under
            if of_edit is not None
        ]
        for of_wording in zip_longest(*by_edit):  # before and after below each other
            for edit, w in filter(None, of_wording):
                lines.append(
                    (
                        set_label(row),
                        str(w["wording"]),
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
        "wording_by_wording",
        "Wording by wording",
        ("set", "wording", "edit", "mean R", "mean |R|", "leans", *sides),
        tuple(lines),
        searchable=True,
        grouped=True,
    )
