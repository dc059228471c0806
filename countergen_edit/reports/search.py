"""The tab of a search: every candidate, its removal and cost, and the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from countergen_edit.decisions.selection import WRECK
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Figure, Number, Section, Words
from countergen_edit.reports.findings import choice, failures
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.base import Record, as_table
from countergen_edit.runs.files import FAILED

if TYPE_CHECKING:
    from countergen_edit.runs.run import Run


def search_section(run: Run) -> Section | None:
    """The tab; None where the run is not a search."""
    results = run.results
    rows = results.of("cost", "validation")
    errors = [row for row in results.rows if row.metric == FAILED]
    is_tested = any(row.detail.get("cost_test") is not None for row in rows)
    ends = {"validation": "", **({"test": "_test"} if is_tested else {})}
    blocks: list[Block] = []
    if sentences := choice(run) if rows or errors else []:
        blocks.append(Words(tuple(sentences)))
    if sentences and rows:
        panels = tuple(_panel(rows, split, end) for split, end in ends.items())
        note = "The choice and the front use validation data alone."
        blocks.append(Figure("front", "Bias removed against cost", panels, note))
    if errors:
        blocks.append(Words(tuple(failures(errors)), brief=True))
    if rows:
        records = _candidates(results, rows, ends)
        best = [dict([*r.items()][: 2 + 2 * len(ends)]) for r in records if r["state"]]
        title = "Pareto front: none removes more bias at less cost"
        note = f"Degradations are of {[*ends][-1]} data, in the unit of each metric."
        blocks += as_table("best", title, best, brief=True)
        blocks += as_table("tried", "Every candidate", records, note, searchable=True)
    return Section("search", "Search", tuple(blocks)) if blocks else None


def _measured(row: Row, end: str) -> tuple[float | None, float | None]:
    """The cost of a candidate and the share of bias that it removes."""
    return row.detail.get("cost_test") if end else row.value, row.detail.get(f"removed{end}")


def _panel(rows: Sequence[Row], split: str, end: str) -> Panel:
    by_name = {row.eraser: [r for r in rows if r.eraser == row.eraser] for row in rows}
    if not end:
        front = [row for row in rows if row.detail["front"]]
        by_name["front"] = sorted(front, key=lambda row: row.value or 0.0)
    by_name["chosen"] = [row for row in rows if row.detail["chosen"]]
    series = []
    for name, same in by_name.items():
        pairs = [_measured(row, end) for row in same]
        if known := [(min(WRECK, x), y) for x, y in pairs if x is not None and y is not None]:
            x, y = zip(*known, strict=True)
            is_baseline = all(row.baseline for row in same)
            one = Series(name, x, y, kind="dots", baseline=is_baseline)
            series.append(replace(one, kind="steps") if name == "front" else one)
    labels = "cost (1 = the budget)", "share of bias removed"
    return Panel(f"{split} data", *labels, tuple(series), covers=(0.0, 1.0), wide=True)


def _candidates(results: Results, rows: Sequence[Row], ends: dict[str, str]) -> list[Record]:
    records: list[Record] = []
    costs = dict.fromkeys(key for row in rows for key in row.detail["degradations"])
    for row in sorted(rows, key=lambda row: (row.baseline, -row.detail["removed"])):
        pairs = {split: _measured(row, end) for split, end in ends.items()}
        worse = row.detail.get(f"degradations{[*ends.values()][-1]}") or {}
        state = "chosen" if row.detail["chosen"] else "front" if row.detail["front"] else ""
        removed = {f"removed, {s}": Number(y, percent=True) for s, (_, y) in pairs.items()}
        cost = {f"cost, {s}": Number(x, digits=2) for s, (x, _) in pairs.items()}
        each = {f"{k}, worse by": Number(worse.get(k), digits=4, signed=True) for k in costs}
        records.append({"edit": results.label(row.edit), "state": state, **removed, **cost, **each})
    return records
