"""Scores in logs of other tools: rows `logged_score` of one log, `logged_change` of two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from countergen_edit.metrics.items import METHODS, Scores, change, mean
from countergen_edit.metrics.rows import Row

ByTask = Mapping[tuple[str, str], Scores]
"""Scores by task and metric."""
_SCORE, _CHANGE = "logged_score", "logged_change"
FIGURE = "figure"
"""The facet that tells the metrics of a task apart."""


def logged_scores(scores: ByTask, seed: int) -> list[Row]:
    """The mean of every task and metric."""
    rows = []
    for (task, figure), found in scores.items():
        columns = mean(found).columns if found.values else {"value": None}
        detail: dict[str, Any] = {"repeated": found.repeated, "unscored": found.unscored}
        detail |= {} if found.values else {"reason": "no item has a score"}
        about: dict[str, Any] = {"facets": {FIGURE: figure}, "n": len(found.values), **columns}
        rows.append(Row(_SCORE, dataset=task, split="test", seed=seed, detail=detail, **about))
    return rows


def logged_changes(
    before: ByTask, after: ByTask, seed: int, detail: Mapping[str, Any]
) -> list[Row]:
    """What changed of every task and metric of which both have an item.

    `detail` is what else each row says of the two sides.
    """
    rows = []
    for (task, figure), first in before.items():
        second = after.get((task, figure))
        if second is None or not first.values.keys() & second.values.keys():
            continue
        found = change(first, second)
        either = len(first.values.keys() | second.values.keys())
        own = {
            "of": figure,
            "before": found.before,
            "after": found.after,
            "p": found.p,
            "method": METHODS[found.test],
            "smallest": found.difference.smallest,
            "samples": found.items,
            "samples_of_either": either,
            "samples_of_one": either - found.items,
            "repeated": max(first.repeated, second.repeated),
            "unscored": max(first.unscored, second.unscored),
        }
        about: dict[str, Any] = {"facets": {FIGURE: figure}, "detail": {**detail, **own}}
        about |= {"dataset": task, "split": "test", "n": found.items, "seed": seed}
        rows.append(Row(_CHANGE, **found.difference.columns, **about))
    return rows
