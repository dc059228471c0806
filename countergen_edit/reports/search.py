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
from countergen_edit.reports.views.by_layer import Recipe, eraser_labels, of_layers, recipe, single
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
    blocks: list[Block] = []
    if sentences := choice(run):
        blocks += [Words(tuple(sentences)), *([_figure(results, rows)] if rows else [])]
    blocks += layer_tables(results)
    if errors:
        blocks.append(Words(tuple(failures(results, errors)), brief=True))
    if rows:
        every = sorted(rows, key=lambda r: (r.baseline, -r.detail["removed"]))
        blocks.append(_candidates(results, every))
    return Section("search", "Search", tuple(blocks))


def _figure(results: Results, rows: Sequence[Row]) -> Figure:
    panels = [_panel(results, rows, "validation", "")]
    if any(row.detail.get("cost_test") is not None for row in rows):
        panels.append(_panel(results, rows, "test", "_test"))
    note = "The choice and the front use validation data alone."
    return Figure("front", "Bias removed against cost", tuple(panels), note)


def _panel(results: Results, rows: Sequence[Row], split: str, end: str) -> Panel:
    def points(name: str, mine: Sequence[Row], steps: bool = False) -> Series:
        known: list[tuple[float, float, str]] = []
        for row in mine:
            cost = row.detail.get(f"cost{end}") if end else row.value
            removed = row.detail.get(f"removed{end}")
            if cost is not None and removed is not None:
                tip = f"{results.label(row.edit)}: removed {removed:.3f}, cost {cost:.2f}"
                known.append((min(WRECK, float(cost)), float(removed), tip))
        x, y, tips = zip(*known, strict=True) if known else ((), (), ())
        baseline = bool(mine) and all(row.baseline for row in mine)
        return Series(name, x, y, kind="steps" if steps else "dots", baseline=baseline, tips=tips)

    series = [
        points(name, [row for row in rows if row.eraser == name])
        for name in dict.fromkeys(row.eraser for row in rows)
    ]
    if not end:
        front = sorted((r for r in rows if r.detail["front"]), key=lambda r: r.value or 0.0)
        series.append(points("front", front, steps=True))
    series.append(points("chosen", [row for row in rows if row.detail["chosen"]]))
    shown, label = tuple(s for s in series if s.x), "cost (1 = the budget)"
    removed = "share of bias removed"
    return Panel(f"{split} data", label, removed, shown, covers=(0.0, 1.0), wide=True)


def _candidates(results: Results, rows: Sequence[Row]) -> Table:
    tested = any(row.detail.get("cost_test") is not None for row in rows)
    splits = ("validation", "test") if tested else ("validation",)
    costs = list(dict.fromkeys(key for row in rows for key in row.detail["degradations"]))
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        d = row.detail
        after = d.get("degradations_test") or ({} if tested else d["degradations"])
        removed = [d["removed"], d.get("removed_test")][: len(splits)]
        paid = [row.value, d.get("cost_test")][: len(splits)]
        lines.append(
            (
                results.label(row.edit),
                "chosen" if d["chosen"] else "front" if d["front"] else "",
                *(Number(value, percent=True) for value in removed),
                *(Number(value, digits=2) for value in paid),
                *(Number(after.get(key), digits=4, signed=True) for key in costs),
            )
        )
    columns = (
        "edit",
        "state",
        *(f"removed, {split}" for split in splits),
        *(f"cost, {split}" for split in splits),
        *(f"{key}, worse by" for key in costs),
    )
    note = f"Degradations are of {splits[-1]} data, in the unit of each metric."
    return Table("tried", "Every candidate", columns, tuple(lines), note, searchable=True)


def layer_tables(results: Results) -> list[Table]:
    """For each site the removal by an edit at each layer, its cost in brackets, and failures."""
    errors = [row for row in results.rows if row.metric == FAILED]
    rows, split = of_layers(results, "bias_removed")
    alone = {e.id for _, e in single(results, rows)}
    cells = [*(r for r in rows if r.edit in alone or r.edit not in results.records), *errors]
    return [
        _by_layer(results, [row for row in cells if row.site == site], site, split)
        for site in dict.fromkeys(row.site for row in cells)
    ]


def _by_layer(results: Results, cells: Sequence[Row], site: str, split: str) -> Table:
    costs = {row.edit: row for row in results.of("cost", "validation")}
    records = [results.records[row.edit] for row in cells if row.edit in results.records]
    records.sort(key=lambda record: record.baseline)
    columns = eraser_labels(records)
    recipes = {key: recipe(e) for e in reversed(records) for key in (e.eraser, (e.eraser, e.rank))}

    def column(row: Row) -> Recipe:
        """The eraser of a row; of a failed fit, which has no record, the one of its name."""
        if row.edit in results.records:
            return recipe(results.records[row.edit])
        key = recipes.get((row.eraser, row.rank)) or recipes.get(row.eraser)
        if key is None:
            key = row.eraser, str(row.rank)
            columns.setdefault(key, f"{row.eraser}-{row.rank}" if row.rank else row.eraser)
        return key

    places: dict[tuple[int, ...], dict[Recipe, Row]] = {}
    for row in cells:
        places.setdefault(row.layers, {})[column(row)] = row
    lines = [
        ("+".join(map(str, layers)), *(_cell(places[layers].get(k), costs, split) for k in columns))
        for layers in sorted(places)
    ]
    screened = any(row.split == SCREENING for row in cells)
    return Table(
        f"layers_{site}",
        f"Bias removed by layer, {site}, {split} data (cost in brackets)",
        ("layer", *columns.values()),
        tuple(lines),
        f"→ chosen; – not measured{'; ~ screened on few validation names' if screened else ''}.",
        brief=True,
    )


def _cell(row: Row | None, costs: dict[str, Row], split: str) -> str:
    if row is None:
        return "–"
    if row.metric == FAILED:
        return "failed"
    share = Number(row.value, percent=True).text
    if row.split == SCREENING:
        return f"~{share}"
    cost = costs.get(row.edit)
    if cost is None:
        return share
    paid = cost.detail.get("cost_test") if split == "test" else cost.value
    mark = "→ " if cost.detail["chosen"] else ""
    bracket = "" if paid is None else f" [{paid:.1f}]" if paid < 10 else f" [{paid:.0f}]"
    return f"{mark}{share}{bracket}"
