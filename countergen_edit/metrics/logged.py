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
        rows.append(_row(SCORE, task, figure, len(found.values), seed, detail, columns))
    return rows


def change_rows(before: ByTask, after: ByTask, seed: int, detail: Mapping[str, Any]) -> list[Row]:
    """What changed of every task and metric of which both have an item.

    Args:
        before, after: the scores.
        seed: of the draws of clusters.
        detail: what else each row says of the two sides.
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
        columns = found.difference.columns
        rows.append(_row(CHANGE, task, figure, found.items, seed, {**detail, **told}, columns))
    return rows


def _row(
    metric: str,
    task: str,
    figure: str,
    n: int,
    seed: int,
    detail: dict[str, Any],
    columns: Mapping[str, Any],
) -> Row:
    about: dict[str, Any] = {"dataset": task, "facets": {FIGURE: figure}, "split": "test"}
    return Row(metric, **columns, **about, n=n, seed=seed, detail=detail)
