"""The selection of an edit: bias removed against cost, on the rows of one split.

The rule: of the edits that cost at most 1 and are shown to remove bias, the one that removes most.
Without such an edit, the cheapest of those that remove at least half of the most that any removes,
so that the effect of an eraser and its price are seen; edits that cost a hundred budgets do not
count for that most. A cost of 1 is the budget of the metric of which the edit takes the largest
share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.decisions.significance import has_significant_bias
from countergen_edit.metrics.base import Cost, Degradation
from countergen_edit.metrics.rows import UNEDITED, Row

DRAWS = "draws"
"""The detail of a row `bias_removed` with resamples of its value."""
WORTH_SHOWING = 0.5
"""The share of the most that any edit removes, required of one that is not affordable."""
MAX_COST_SHARE = 100.0
"""Budgets at which an edit wrecks the model."""
ENOUGH = 0.7
"""Share of the bias, at the lower end of its interval, that is enough. On SmolLM2 an edit removed
82 % [33, 84] of the bias by race on validation data, and 47 % [34, 56] on test data."""


@dataclass(frozen=True)
class Point:
    """One edit: the share of the bias it removes, and what it costs by each metric."""

    edit: str
    removed: float
    degradations: Mapping[str, Degradation] = field(default_factory=dict)
    least_degradations: Mapping[str, Degradation] = field(default_factory=dict)
    """The same at the better ends of the costs' intervals; empty where they have none."""
    is_shown: bool = True
    """Whether there was a bias, and the interval of the share removed (or its value) is above 0."""
    least_removed: float = -math.inf
    """The lower end of that interval, or the value without one."""
    draws: tuple[float, ...] = ()
    """The share removed in each of some resamples, the same of every edit."""

    @property
    def cost(self) -> float:
        """The largest share of a budget."""
        return max((d.share for d in self.degradations.values()), default=0.0)

    @property
    def least_cost(self) -> float:
        """The cost that its intervals allow at best."""
        best = {**self.degradations, **self.least_degradations}
        return max((d.share for d in best.values()), default=0.0)

    @property
    def is_worthwhile(self) -> bool:
        """Whether it is affordable, and shown to remove some of the bias."""
        return self.cost <= 1 and self.is_shown

    @property
    def over(self) -> list[str]:
        return [name for name, degradation in self.degradations.items() if degradation.share > 1]

    @property
    def detail(self) -> dict[str, Any]:
        costs = self.degradations
        return {
            "removed": self.removed,
            "degradations": {name: cost.value for name, cost in costs.items()},
            "groups": {name: cost.group for name, cost in costs.items() if cost.group},
            "affordable": self.cost <= 1,
            "shown": self.is_shown,
            "over": self.over,
        }


def worthwhile(row: Row) -> bool:
    """Whether the candidate of a row `cost` or `choice` is affordable and shown to remove bias."""
    return bool(row.detail["affordable"] and row.detail.get("shown", True))


def points(
    rows: Sequence[Row], split: str, costs: Sequence[Cost], *, baselines: bool = False
) -> list[Point]:
    """The edits of a split that have every figure the rule needs, in the order of their rows.

    `rows` are of one task; controls count with `baselines`, to be shown, never chosen.
    """
    by_edit: dict[str, list[Row]] = {}
    for row in rows:
        if row.split == split and (baselines or not row.baseline):
            by_edit.setdefault(row.edit, []).append(row)
    before = by_edit.get(UNEDITED, [])
    needed = {cost.name for cost in costs if cost.counted(before)}
    is_biased = has_significant_bias(rows)
    candidates = []
    for edit, of_edit in by_edit.items():
        removed = next((r for r in of_edit if r.metric == "bias_removed"), None)
        degradations, least = worse_by(costs, before, of_edit)
        if removed is not None and removed.value is not None and needed <= degradations.keys():
            low = removed.value if removed.lo is None else removed.lo
            shown = is_biased and low > 0, low, tuple(removed.detail.get(DRAWS, ()))
            candidates.append(Point(edit, removed.value, degradations, least, *shown))
    return candidates


def worse_by(
    costs: Sequence[Cost], before: Sequence[Row], after: Sequence[Row]
) -> tuple[dict[str, Degradation], dict[str, Degradation]]:
    """The degradation by each cost, and the same at the better ends of the intervals.

    `before` are the rows of the unedited model and `after` those under the edit, of one split.
    """
    worst = {cost.name: cost.worst(before, after) for cost in costs}
    at_best = {cost.name: cost.worst(before, cost.at_best(after)) for cost in costs}
    degradations, least = ({k: d for k, d in part.items() if d} for part in (worst, at_best))
    return degradations, least


def front(candidates: Sequence[Point]) -> list[Point]:
    """The points that no other beats in bias removed at equal or less cost, cheapest first."""
    kept: list[Point] = []
    for point in sorted(candidates, key=lambda p: (p.cost, -p.removed)):
        if not kept or point.removed > kept[-1].removed:
            kept.append(point)
    return kept


def ordered(candidates: Sequence[Point]) -> list[Point]:
    """The points by the rule, best first; equals stay in their order."""
    sound = [p for p in candidates if p.cost < MAX_COST_SHARE] or candidates
    least = WORTH_SHOWING * max((p.removed for p in sound), default=0.0)

    def rank(point: Point) -> tuple[int, float, float]:
        if point.is_worthwhile:
            return 2, point.removed, -point.cost
        # Where nothing removes any bias, the cheapest: what does least harm.
        return int(point.removed >= least or least <= 0), -point.cost, point.removed

    return sorted(candidates, key=rank, reverse=True)


def removes_enough(candidates: Sequence[Point]) -> bool:
    """Whether one of the points is affordable and shown to remove `ENOUGH` of the bias."""
    return any(point.is_worthwhile and point.least_removed >= ENOUGH for point in candidates)


def choose(candidates: Sequence[Point]) -> Point:
    """The best point by the rule, of equals the first; `UserError` if there is none."""
    if not candidates:
        raise UserError("no edit was measured, so none can be chosen: every candidate failed")
    return ordered(candidates)[0]
