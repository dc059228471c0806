"""Refinement: how a refined map's losses went, step by step.

Comes in: the curve of a refined eraser, which an experiment records when it fits. Goes out: its
rows, a figure, and a table of where each began and ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.panels import Panel, Series, line
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row

LOSS = "refinement_loss"
FACETS = ("seed", "step")
TITLES = {
    "bias": "bias, nats²",
    "people": "people, nats",
    "keep": "kept, nats",
    "neutral": "text, nats",
}
"""What the terms of a loss are called."""


def refinement_rows(curve: Sequence[Mapping[str, float]], task: Task, seed: int) -> list[Row]:
    """A row for each look at the losses of a fit; its terms are in the detail.

    Args:
        curve: as `Refined.curve_`.
        task: the task that was fitted on.
        seed: the run's seed.
    """
    return [
        Row.of_set(
            task.fit[0],
            LOSS,
            look["loss"],
            dataset="+".join(data.name for data in task.fit),
            split="validation",
            seed=seed,
            facets={name: look[name] for name in FACETS},
            detail={name: look[name] for name in TITLES if name in look},
        )
        for look in curve
    ]


class Refinement(Metric):
    """What refinements did; an experiment that fits a refined eraser records their rows."""

    is_selectable = False
    is_of_edits = True

    def rows(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """None: a curve is recorded where an eraser is fitted, not where an edit is measured."""
        return []

    @classmethod
    def sections(cls, results: Results) -> list[Section]:
        """The curve of every refined edit that is shown, and where each began and ended."""
        curves = {edit.id: results.of(LOSS, "validation", edit.id) for edit in results.shown}
        curves = {edit: rows for edit, rows in curves.items() if rows}
        if not curves:
            return []
        panel = Panel("held-out loss", "step", "loss", tuple(_lines(results, curves)))
        words = "Weighted sum of what is wanted of the model, on names and texts held out."
        blocks: list[Block] = [
            Figure("refinement", "How refinement went", (panel,), words),
            _table(results, curves),
        ]
        return [Section("layers", "Layers and erasers", tuple(blocks))]


def _by_seed(rows: Sequence[Row]) -> dict[float, list[Row]]:
    by_seed: dict[float, list[Row]] = {}
    for row in rows:
        by_seed.setdefault(float(row.facets["seed"]), []).append(row)
    return by_seed


def _lines(results: Results, curves: Mapping[str, Sequence[Row]]) -> list[Series]:
    lines = []
    for edit, rows in curves.items():
        by_seed = _by_seed(rows)
        for seed, of_seed in by_seed.items():
            name = results.label(edit) + (f", seed {seed:g}" if len(by_seed) > 1 else "")
            lines.append(line(name, [float(row.facets["step"]) for row in of_seed], of_seed))
    return lines


def _table(results: Results, curves: Mapping[str, Sequence[Row]]) -> Table:
    """Losses of the closed form and of the best map of each seed, with the spread over seeds."""
    lines: list[tuple[Cell, ...]] = []
    for edit, rows in curves.items():
        best = [min(of_seed, key=_value) for of_seed in _by_seed(rows).values()]
        chosen = min(best, key=_value)
        spread = float(np.std([_value(row) for row in best], ddof=1)) if len(best) > 1 else None
        for name, row in (("closed form", rows[0]), (f"step {chosen.facets['step']:g}", chosen)):
            terms = [Number(row.detail.get(term), digits=4) for term in TITLES]
            ends = Number(spread, digits=4) if row is chosen else Number(None)
            lines.append((results.label(edit), name, *terms, Number(row.value, digits=4), ends))
    columns = ("edit", "", *TITLES.values(), "loss", "spread over seeds")
    words = "Means over held-out contexts; the loss is their weighted sum."
    return Table("refinement", "Refinement, before and after", columns, tuple(lines), words)


def _value(row: Row) -> float:
    return float("inf") if row.value is None else row.value
