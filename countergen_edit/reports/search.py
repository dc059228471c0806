"""The tab of a search: every candidate, its removal and cost, and the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from countergen_edit.decisions.selection import WRECK
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.findings import choice, failures
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.runs.files import FAILED

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run


def search(run: Run) -> Section | None:
    """The tab; None where the run is no search."""
    results = run.results
    rows = results.of("cost", "validation")
    errors = [row for row in results.rows if row.metric == FAILED]
    if not rows and not errors:
        return None
    ends = {"validation": ""}
    if any(row.detail.get("cost_test") is not None for row in rows):
        ends["test"] = "_test"
    blocks: list[Block] = []
    if sentences := choice(run):
        blocks.append(Words(tuple(sentences)))
    if sentences and rows:
        panels = tuple(_panel(results, rows, split, end) for split, end in ends.items())
        note = "The choice and the front use validation data alone."
        blocks.append(Figure("front", "Bias removed against cost", panels, note))
    if errors:
        blocks.append(Words(tuple(failures(errors)), brief=True))
    if rows:
        every, shown = _candidates(results, rows, ends), 2 + 2 * len(ends)
        best = tuple(row[:shown] for row in every.rows if row[1])
        title = "Pareto front: none removes more bias at less cost"
        blocks += [Table("best", title, every.columns[:shown], best, brief=True), every]
    return Section("search", "Search", tuple(blocks))


def _measured(row: Row, end: str) -> tuple[float | None, float | None]:
    """The cost of a candidate and the share of bias that it removes."""
    return row.detail.get("cost_test") if end else row.value, row.detail.get(f"removed{end}")


def _panel(results: Results, rows: Sequence[Row], split: str, end: str) -> Panel:
    def series(name: str, mine: Sequence[Row], steps: bool = False) -> Series:
        pairs = [_measured(row, end) for row in mine]
        known = [(min(WRECK, x), y) for x, y in pairs if x is not None and y is not None]
        x, y = zip(*known, strict=True) if known else ((), ())
        is_baseline = bool(mine) and all(row.baseline for row in mine)
        return Series(name, x, y, kind="steps" if steps else "dots", baseline=is_baseline)

    erasers = dict.fromkeys(row.eraser for row in rows)
    every = [series(name, [row for row in rows if row.eraser == name]) for name in erasers]
    if not end:
        front = sorted((r for r in rows if r.detail["front"]), key=lambda r: r.value or 0.0)
        every.append(series("front", front, steps=True))
    every.append(series("chosen", [row for row in rows if row.detail["chosen"]]))
    labels = "cost (1 = the budget)", "share of bias removed"
    shown = tuple(s for s in every if s.x)
    return Panel(f"{split} data", *labels, shown, covers=(0.0, 1.0), wide=True)


def _candidates(results: Results, rows: Sequence[Row], ends: dict[str, str]) -> Table:
    costs = list(dict.fromkeys(key for row in rows for key in row.detail["degradations"]))
    split, end = [*ends.items()][-1]
    lines: list[tuple[Cell, ...]] = []
    for row in sorted(rows, key=lambda row: (row.baseline, -row.detail["removed"])):
        pairs = [_measured(row, end) for end in ends.values()]
        worse = row.detail.get(f"degradations{end}") or {}
        lines.append(
            (
                results.label(row.edit),
                "chosen" if row.detail["chosen"] else "front" if row.detail["front"] else "",
                *(Number(removed, percent=True) for _, removed in pairs),
                *(Number(cost, digits=2) for cost, _ in pairs),
                *(Number(worse.get(key), digits=4, signed=True) for key in costs),
            )
        )
    titles = [f"{what}, {split}" for what in ("removed", "cost") for split in ends]
    columns = ("edit", "state", *titles, *(f"{key}, worse by" for key in costs))
    note = f"Degradations are of {split} data, in the unit of each metric."
    return Table("tried", "Every candidate", columns, tuple(lines), note, searchable=True)
