"""The course of a distillation, and the contexts that the model wrote for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from countergen_edit.data.task import Task
from countergen_edit.metrics.rows import Row

LOSS = "distillation_loss"
OWN_CONTEXTS = "own_contexts"
"""The row of the number of contexts that a model wrote itself, with examples in its detail."""
FACETS = ("seed", "step")
TITLES = {
    "bias": "bias, nats²",
    "people": "people, nats",
    "keep": "kept, nats",
    "neutral": "text, nats",
    "agreement": "fall of agreement",
    "legitimate": "change of legitimate differences",
}
"""Titles of the terms of a loss."""


def curve_rows(curve: Sequence[Mapping[str, float]], task: Task, seed: int) -> list[Row]:
    """A row for each look at the losses of a fit; its terms are in the detail.

    Args:
        curve: as `Distillation.curve`.
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


def own_contexts_row(summary: Mapping[str, Any], task: Task, seed: int) -> Row:
    """The row of a summary of `OwnContexts`."""
    about = {"dataset": "+".join(data.name for data in task.fit), "split": "fit"}
    count = float(summary["to_erase"])
    return Row.of_set(task.fit[0], OWN_CONTEXTS, count, **about, seed=seed, detail=dict(summary))
