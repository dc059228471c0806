"""A sweep: the front of bias removed against cost, what was chosen, and what failed."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.rows import BASELINE, Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table, Words
from countergen_edit.reports.figures.panels import Panel, Series
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import edit_label

MOST_COST = 100.0
"""Costs beyond are drawn here: what is a hundred times too dear is too dear."""


def sweep(run: Run) -> Section | None:
    """What was swept; nothing where the run is no sweep."""
    results = run.results
    rows = results.of("cost", "validation")
    failed = [row for row in results.rows if row.metric == "error"]
    blocks: list[Block] = []
    if rows:
        chosen = [edit_label(row.edit) for row in rows if row.detail["chosen"]]
        words = (
            f"Chosen on validation names and wordings: {', '.join(chosen)}. Of the edits with a "
            "cost of at most 1 it removes most; if there is none, it is the cheapest. Cost 1 is "
            "all that is tolerated of the worst of agreement lost, perplexity gained and KL."
        )
        panels = (_panel(rows, "validation", ""), _panel(rows, "test", "_test"))
        note = "The chosen edit and the front were found on validation data alone."
        blocks += [Words((words,)), Figure("front", "Bias removed against cost", panels, note)]
        blocks.append(_table(rows))
    if failed:
        lines = tuple((edit_label(row.edit), str(row.detail.get("error", ""))) for row in failed)
        blocks.append(Table("failed", "Edits that failed", ("edit", "error"), lines))
    return Section("sweep", "Sweep", tuple(blocks)) if blocks else None


def _panel(rows: Sequence[Row], split: str, ending: str) -> Panel:
    def points(name: str, mine: Sequence[Row], kind: str = "dots") -> Series:
        x = tuple(_cost(r, ending) for r in mine)
        y = tuple(float(r.detail["removed" + ending]) for r in mine)
        tips = tuple(
            f"{edit_label(r.edit)}: removed {v:.3f}, cost {c:.2f}"
            for r, c, v in zip(mine, x, y, strict=True)
        )
        drawn = "steps" if kind == "steps" else "dots"
        return Series(name, x, y, kind=drawn, baseline=name == BASELINE, tips=tips)  # type: ignore[arg-type]

    series = [
        points(name, [r for r in rows if r.eraser == name])
        for name in dict.fromkeys(r.eraser for r in rows)
    ]
    if not ending:
        front = sorted((r for r in rows if r.detail["front"]), key=lambda r: r.value or 0)
        series.append(points("front", front, "steps"))
    series.append(points("chosen", [r for r in rows if r.detail["chosen"]]))
    label = "cost (1 = all that is tolerated)"
    removed = "share of mean |R| removed"
    return Panel(f"{split} data", label, removed, tuple(series), wide=True)


def _cost(row: Row, ending: str) -> float:
    cost = row.detail["cost" + ending] if ending else row.value
    return min(MOST_COST, float(cost or 0.0))


def _table(rows: Sequence[Row]) -> Table:
    lines: list[tuple[Cell, ...]] = []
    for row in sorted(rows, key=lambda r: -r.detail["removed"]):
        d = row.detail
        state = "chosen" if d["chosen"] else "front" if d["front"] else ""
        lines.append(
            (
                edit_label(row.edit),
                state,
                Number(d["removed"], percent=True),
                Number(d["removed_test"], percent=True),
                Number(row.value, digits=2),
                Number(d["cost_test"], digits=2),
                Number(d["agreement_lost_test"], digits=4, signed=True),
                Number(d["perplexity_ratio_test"], digits=4),
            )
        )
    return Table(
        "sweep",
        "Every edit",
        (
            "edit",
            "",
            "removed, validation",
            "removed, test",
            "cost, validation",
            "cost, test",
            "agreement lost, test",
            "perplexity ratio, test",
        ),
        tuple(lines),
        searchable=True,
    )
