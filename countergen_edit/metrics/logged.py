"""Scores in logs of other tools: rows `logged_score` of one log, `logged_change` of two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from countergen_edit.metrics.items import METHODS, Scores, change, mean
from countergen_edit.metrics.rows import Row

ByTask = Mapping[tuple[str, str], Scores]
"""Scores by task and metric."""
SCORE, CHANGE = "logged_score", "logged_change"
FIGURE = "figure"
"""The facet that tells the metrics of a task apart."""


def score_rows(scores: ByTask, seed: int) -> list[Row]:
    """The mean of every task and metric."""
    rows = []
    for (task, figure), found in scores.items():
        columns = mean(found, seed, task).columns if found.values else {"value": None}
        detail: dict[str, Any] = {"repeated": found.repeated, "unscored": found.unscored}
        if not found.values:
            detail["reason"] = "no item has a score"
        about = _about(task, figure, seed)
        rows.append(Row(SCORE, **columns, **about, n=len(found.values), detail=detail))
    return rows


def change_rows(before: ByTask, after: ByTask, seed: int, detail: Mapping[str, Any]) -> list[Row]:
    """What changed of every task and metric of which both have an item.

    `detail` is what else each row says of the two sides.
    """
    rows = []
    for (task, figure), first in before.items():
        second = after.get((task, figure))
        if second is None or not first.values.keys() & second.values.keys():
            continue
        found = change(first, second, seed, task)  # all metrics of a task meet the same draws
        either = len(first.values.keys() | second.values.keys())
        told = {
            "of": figure,
            "before": found.before,
            "after": found.after,
            "p": found.p,
            "method": METHODS[found.test],
            "smallest": found.difference.smallest,
            "clusters": found.clusters,
            "samples": found.items,
            "samples_of_either": either,
            "samples_of_one": either - found.items,
            "repeated": max(first.repeated, second.repeated),
            "unscored": max(first.unscored, second.unscored),
        }
        about = {**found.difference.columns, **_about(task, figure, seed), "n": found.items}
        rows.append(Row(CHANGE, **about, detail={**detail, **told}))
    return rows


def _about(task: str, figure: str, seed: int) -> dict[str, Any]:
    return {"dataset": task, "facets": {FIGURE: figure}, "split": "test", "seed": seed}
