"""Refinement: losses of a refined eraser, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from countergen_edit.data.task import Task
from countergen_edit.metrics.rows import Row

LOSS = "refinement_loss"
FACETS = ("seed", "step")
TITLES = {
    "bias": "bias, nats²",
    "people": "people, nats",
    "keep": "kept, nats",
    "neutral": "text, nats",
}
"""Titles of the terms of a loss."""


def refinement_rows(curve: Sequence[Mapping[str, float]], task: Task, seed: int) -> list[Row]:
    """A row for each look at the losses of a fit; its terms are in the detail.

    Args:
        curve: as `Refined.curve_`.
        task: the task that was fitted on.
        seed: the run's seed.
    """
    about = {"dataset": "+".join(data.name for data in task.fit), "split": "validation"}
    rows = []
    for look in curve:
        facets = {name: look[name] for name in FACETS}
        detail = {name: look[name] for name in TITLES if name in look}
        loss = look["loss"]
        row = Row.of_set(task.fit[0], LOSS, loss, **about, seed=seed, facets=facets, detail=detail)
        rows.append(row)
    return rows
