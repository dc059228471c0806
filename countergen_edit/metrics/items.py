"""Scores of single items in logs of other tools, and the change between two logs.

Repeated scores of an item (epochs, duplicates) are not independent and count once, by their mean.
The interval and P of a change are Student's paired t. Where every score is 0 or 1, P is McNemar's
exact one (Psychometrika 12, 1947), a binomial test of the items that changed, and the interval that
of Bonett and Price (Journal of Educational and Behavioral Statistics 37, 2012), which does not
shrink to a point. For items that all differ by the same, the interval is NaN and P is None.

In 2,000 simulations each of 30, 100 and 400 items of which 2, 10 or 30 % change, Bonett and Price's
intervals covered 94.5 to 100 %, those of the paired t 46.6 to 100 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtri, stdtrit
from scipy.stats import binomtest
from statsmodels.stats.proportion import proportion_confint

from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import TAIL, Estimate

_ROUNDING = 1e-12
"""A spread of at most this share of the scores is rounding."""
MCNEMAR = "of scores of 0 and 1 McNemar's exact P and Bonett and Price's interval"
PAIRED_T = "of other scores Student's paired t"
_SCORE, _CHANGE = "logged_score", "logged_change"
_COUNTS = ("repeated", "unscored")
FIGURE = "figure"
"""The facet that tells the metrics of a task apart."""


@dataclass(frozen=True)
class Item:
    """One score of one item."""

    task: str
    metric: str
    id: str
    """The same wherever the same is asked."""
    value: float
    """NaN where it was left without a score."""


@dataclass(frozen=True)
class Scores:
    """The scores of one task and metric, an entry an item."""

    values: Mapping[str, float]
    """By item; the mean of those that stand more than once."""
    repeated: int = 0
    """Items that stand more than once."""
    unscored: int = 0
    """Items without any score."""


ByTask = Mapping[tuple[str, str], Scores]
"""Scores by task and metric."""


def item_scores(items: Iterable[Item]) -> dict[tuple[str, str], Scores]:
    """Scores by task and metric."""
    by_task: dict[tuple[str, str], dict[str, list[float]]] = {}
    for item in items:
        by_id = by_task.setdefault((item.task, item.metric), {})
        by_id.setdefault(item.id, []).append(item.value)
    scores = {}
    for key, by_id in by_task.items():
        finite = {i: [x for x in values if math.isfinite(x)] for i, values in by_id.items()}
        scores[key] = Scores(
            {i: math.fsum(values) / len(values) for i, values in finite.items() if values},
            repeated=sum(len(values) > 1 for values in by_id.values()),
            unscored=sum(not values for values in finite.values()),
        )
    return scores


def mean(scores: Scores) -> Estimate:
    """The mean over items with its interval: Wilson's of a share, else Student's."""
    values = np.array([*scores.values.values()])
    if _is_binary(values):
        lo, hi = proportion_confint(values.sum(), len(values), method="wilson")
        return Estimate(float(values.mean()), float(lo), float(hi))
    return _paired_t(values, _size(values))[0]


def change(before: Scores, after: Scores) -> tuple[Estimate, dict[str, Any]]:
    """The change of the mean on shared items, one at least, with means and test."""
    shared = [key for key in before.values if key in after.values]
    first, second = (np.array([side.values[key] for key in shared]) for side in (before, after))
    if _is_binary(first) and _is_binary(second):
        difference, p, method = _mcnemar(first, second)
    else:
        difference, p, method = _paired_t(second - first, max(_size(first), _size(second)))
    means = {"before": float(first.mean()), "after": float(second.mean())}
    test = {"p": p, "method": method, "smallest": difference.smallest}
    return difference, means | test | {"samples": len(shared)}


def logged_scores(scores: ByTask, seed: int) -> list[Row]:
    """The mean of every task and metric."""
    rows = []
    for (task, figure), of_figure in scores.items():
        n = len(of_figure.values)
        detail: dict[str, Any] = {key: getattr(of_figure, key) for key in _COUNTS}
        if not n:
            detail["reason"] = "no item has a score"
        value = mean(of_figure) if n else math.nan
        columns: dict[str, Any] = {"dataset": task, "split": "test", "facets": {FIGURE: figure}}
        rows.append(Row.of(_SCORE, value, n=n, seed=seed, detail=detail, **columns))
    return rows


def logged_changes(
    before: ByTask, after: ByTask, seed: int, detail: Mapping[str, Any]
) -> list[Row]:
    """The changes of all tasks and metrics of which both have an item; rows share `detail`."""
    rows = []
    for (task, figure), first in before.items():
        second = after.get((task, figure), Scores({}))
        either = len(first.values.keys() | second.values.keys())
        alone = len(first.values.keys() ^ second.values.keys())
        if alone == either:
            continue
        difference, test = change(first, second)
        counts = {"samples_of_either": either, "samples_of_one": alone}
        most = {key: max(getattr(first, key), getattr(second, key)) for key in _COUNTS}
        columns: dict[str, Any] = {"dataset": task, "split": "test", "facets": {FIGURE: figure}}
        columns["detail"] = {**detail, "of": figure, **test, **counts, **most}
        rows.append(Row.of(_CHANGE, difference, n=test["samples"], seed=seed, **columns))
    return rows


TestedMean = tuple[Estimate, float | None, str]
"""A mean, its P and the method of the test."""


def _paired_t(d: Float64[np.ndarray, " item"], size: float) -> TestedMean:
    n, centre = len(d), float(d.mean())
    error = float(d.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    if not error > _ROUNDING * size:  # of one item, or of items that differ by the same
        return Estimate(centre), None, PAIRED_T
    reach = float(stdtrit(n - 1, TAIL)) * error
    interval = Estimate(centre, centre - reach, centre + reach, error)
    return interval, interval.p_of_none(n), PAIRED_T


def _mcnemar(
    first: Float64[np.ndarray, " item"], second: Float64[np.ndarray, " item"]
) -> TestedMean:
    n, gained, lost = len(first), int((second > first).sum()), int((second < first).sum())
    a, b = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    error = math.sqrt((a + b - (a - b) ** 2) / (n + 2))
    reach = float(ndtri(TAIL)) * error
    ends = max(a - b - reach, -1.0), min(a - b + reach, 1.0)
    p = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    return Estimate((gained - lost) / n, *ends, error), p, MCNEMAR


def _is_binary(values: Float64[np.ndarray, " item"]) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _size(values: Float64[np.ndarray, " item"]) -> float:
    return float(np.abs(values).max())
