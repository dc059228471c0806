"""Classifier tasks over several models: what a template says, and its rewordings, model by model.

Comes in: runs that are held against each other. Goes out: quantities, and the tab `classifiers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from countergen_edit.metrics.base import Quantity, alike
from countergen_edit.metrics.blocks import Section, Table
from countergen_edit.metrics.over_runs import stacked
from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import Row


def compared(
    results: Results, measured: Sequence[Row], name: Callable[[Row], str]
) -> list[Quantity]:
    """How many rewordings flip by each test, and the measure of all templates.

    Args:
        results: of a run.
        measured: rows of measures over wordings.
        name: what a measure is called.
    """
    flips = [row for row in results.of("category_flips", split="") if row.dataset == "all"]
    return [
        Quantity(
            f"rewordings that flip, over {row.facets['test']}",
            alike(results, row),
            "other",
            percent=True,
            main=False,
        )
        for row in flips
    ] + [
        Quantity(f"{name(row)}, reworded", alike(results, row), "other", main=False)
        for row in measured
        if row.dataset == "all"
    ]


def over_runs(
    sides: Sequence[Side], tables: Sequence[Callable[[Results], Table | None]]
) -> list[Section]:
    """The tab of classifiers; none where no run asked one."""
    blocks = tuple(table for make in tables if (table := stacked(sides, make)) is not None)
    return [Section("classifiers", "Classifiers", blocks)] if blocks else []
