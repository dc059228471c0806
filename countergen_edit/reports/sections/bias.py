"""R of every set under every edit (CounterGen, Figure 1 and Table 1)."""

from __future__ import annotations

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Figure, Number, Section, Table
from countergen_edit.reports.figures.panels import Panel
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import (
    compared,
    edit_label,
    listed,
    set_label,
    shown,
)


def bias(run: Run) -> Section | None:
    """Bias and its direction, set by set."""
    results = run.results
    rows = [row for split in ("test", "fit") for row in results.unedited("mean_abs_r", split)]
    if not rows:
        return None
    panels = [
        Panel(set_label(row), "mean |R|", "", tuple(listed(results, row)), True, (0, 1))
        for row in rows
    ]
    figure = Figure(
        "bias_by_set",
        "Bias under every edit, set by set",
        tuple(panels),
        "Dots are mean |R| with 95 % intervals: 0 where the group makes no difference, 1 where it "
        "makes all of it. Grey is what an edit is held against.",
    )
    tables = [_sizes(results, rows), *_removed(results, rows), _directions(results)]
    return Section("bias", "Bias", (figure, *tables))


def _sizes(results: Results, rows: list[Row]) -> Table:
    edits = compared(results)
    planted = {
        r.dataset: r for split in ("test", "fit") for r in results.of("planted_mean_abs_r", split)
    }
    titles = ["set", *(["planted truth"] if planted else []), *map(edit_label, edits)]
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        truth = [Number.of(planted.get(row.dataset))] if planted else []
        found = [Number.of(results.under(row, edit)) for edit in edits]
        lines.append((set_label(row), *truth, *found, str(row.n)))
    return Table(
        "bias",
        "Mean |R|, set by set",
        (*titles, "n"),
        tuple(lines),
        "n counts prompt-output pairs.",
    )


def _removed(results: Results, rows: list[Row]) -> list[Table]:
    edits = [row.edit for row in shown(results)]
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        gone = [results.under(row, edit, "abs_r_reduction") for edit in edits]
        lines.append((set_label(row), *(Number.of(found, percent=True) for found in gone)))
    if not edits:
        return []
    titles = ("set", *map(edit_label, edits))
    note = "1 − after/before; below 0 bias was added. Where there was hardly any, it says little."
    return [Table("removed", "Bias removed", titles, tuple(lines), note)]


def _directions(results: Results) -> Table:
    rows = [row for split in ("test", "fit") for row in results.unedited("r", split)]
    edits = compared(results)
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        cells = []
        for edit in edits:
            found = results.under(row, edit)
            star = bool(found and found.detail.get("starred"))
            cells.append(Number.of(found, signed=True, starred=star))
        lines.append((set_label(row), *cells))
    a, b = (rows[0].group_a, rows[0].group_b) if rows else ("a", "b")
    return Table(
        "direction",
        "Mean R: in which direction",
        ("set", *map(edit_label, edits)),
        tuple(lines),
        f"Above 0, outputs are likelier after {a}; below 0, after {b}. Opposite biases cancel. "
        "* is two standard errors from 0.",
    )
