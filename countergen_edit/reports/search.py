"""The tab of a search: every candidate, its removal and cost, and the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from countergen_edit.decisions.selection import WRECK
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import SCREENING, Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.findings import choice, failures
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.views.by_layer import eraser_labels, of_layers, recipe, single
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
    blocks += layer_tables(results)
    if errors:
        blocks.append(Words(tuple(failures(errors)), brief=True))
    if rows:
        blocks.append(_candidates(results, rows, ends))
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


def layer_tables(results: Results) -> list[Table]:
    """For each site the removal by an edit at each layer, with its cost in brackets."""
    rows, split = of_layers(results, "bias_removed")
    alone = sorted(single(results, rows), key=lambda pair: pair[1].baseline)
    labels = eraser_labels([record for _, record in alone])
    costs = {row.edit: row for row in results.of("cost", "validation")}
    tables = []
    for site in dict.fromkeys(row.site for row, _ in alone):
        cells: dict[int, dict[str, str]] = {}
        for row, record in alone:
            if row.site == site:
                cell = _cell(row, costs.get(row.edit), split)
                cells.setdefault(row.layers[0], {})[labels[recipe(record)]] = cell
        heads = list(dict.fromkeys(head for of_layer in cells.values() for head in of_layer))
        lines = tuple(
            (str(layer), *(cells[layer].get(head, "–") for head in heads))
            for layer in sorted(cells)
        )
        title = f"Bias removed by layer, {site}, {split} data (cost in brackets)"
        screened = any(row.split == SCREENING for row, _ in alone)
        few = "; ~ screened on few validation names" if screened else ""
        note = f"→ chosen; – not measured{few}."
        tables.append(Table(f"layers_{site}", title, ("layer", *heads), lines, note, brief=True))
    return tables


def _cell(row: Row, cost: Row | None, split: str) -> str:
    share = Number(row.value, percent=True).text
    if row.split == SCREENING:
        return f"~{share}"
    if cost is None:
        return share
    paid, _ = _measured(cost, "_test" if split == "test" else "")
    mark = "→ " if cost.detail["chosen"] else ""
    return f"{mark}{share}" + ("" if paid is None else f" [{paid:.{1 if paid < 10 else 0}f}]")
