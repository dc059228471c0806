"""R over several runs: CounterGen's Table 1, and the group effect of every set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from countergen_edit.metrics.results import Side
from countergen_edit.metrics.rows import UNEDITED, Row, set_label
from countergen_edit.reports.blocks import Cell, Figure, Number, Section, Table
from countergen_edit.reports.panels import Panel, dots
from countergen_edit.reports.views.r.sections import COVERED, NATS
from countergen_edit.reports.views.r.sentences import definition
from countergen_edit.reports.views.stacked import RUN, each


def over_runs(sides: Sequence[Side]) -> list[Section]:
    """The tab of bias; none where no run measured R."""
    sides = [side for side in sides if side.results.unedited("group_effect")]
    if not sides:
        return []
    rows = [row for side in sides for row in side.results.unedited("group_effect")]
    panels = []
    for dataset, label in _sets(sides, "group_effect").items():
        known = [(s.label(e), _under(s, "group_effect", e).get(dataset)) for s, e in each(sides)]
        series = [dots(name, [name], [row]) for name, row in known if row and row.value is not None]
        panels.append(Panel(label, NATS, "", tuple(series), True, covers=COVERED))
    note = "Dots are group effects with 95 % intervals."
    figure = Figure("bias_by_set", "Bias by model, set by set", tuple(panels), note)
    columns = (RUN, "edit", *_sets(sides, "group_effect").values())
    lines, title = _lines(sides, "group_effect", Number.of), "Group effect by model"
    effects = Table("bias", title, columns, lines, definition(rows), brief=True)
    return [Section("bias", "Bias", (figure, _table_1(sides, rows[0]), effects))]


def _sets(sides: Sequence[Side], metric: str) -> dict[str, str]:
    """The test sets of all runs, with their labels."""
    rows = (row for side in sides for row in side.results.unedited(metric))
    return {row.dataset: set_label(row) for row in rows}


def _under(side: Side, metric: str, edit: str) -> dict[str, Row]:
    """The rows of a run under an edit, by set."""
    return {row.dataset: row for row in side.results.of(metric, edit=edit)}


def _table_1(sides: Sequence[Side], first: Row) -> Table:
    """Mean R of every run and set with the paper's stars, and the published figures."""

    def cell(row: Row | None) -> Cell:
        return Number.of(row, 2, signed=True, starred=bool(row and row.detail.get("starred")))

    note = (
        f"Above 0, outputs are likelier after {first.group_a}; below 0, after {first.group_b}. "
        "* is two standard errors from 0."
    )
    columns, lines = (RUN, "edit", *_sets(sides, "r").values()), _lines(sides, "r", cell, True)
    return Table("direction", "Mean R by model", columns, lines, note, brief=True)


def _lines(
    sides: Sequence[Side],
    metric: str,
    cell: Callable[[Row | None], Cell],
    with_published: bool = False,
) -> tuple[tuple[Cell, ...], ...]:
    """A line for each run and edit, and one for the published figures of a run's model."""
    lines: list[tuple[Cell, ...]] = []
    sets = _sets(sides, metric)
    for side in sides:
        for edit in side.edits:
            rows = _under(side, metric, edit)
            cells = (cell(rows[name]) if name in rows else "" for name in sets)
            lines.append((side.name, side.results.label(edit), *cells))
        rows = _under(side, metric, UNEDITED) if with_published else {}
        papers = {name: p for name, row in rows.items() if (p := row.detail.get("published"))}
        if papers:
            published = (
                Number(papers[name]["r"], digits=2, signed=True, starred=papers[name]["starred"])
                if name in papers
                else ""
                for name in sets
            )
            lines.append((f"{side.name}, published", "", *published))
    return tuple(lines)
