"""Which edit is best: bias removed against cost, and a rule that never looks at test data.

Comes in: rows of one split, and the metrics that are costs. Goes out: points, their Pareto front,
and the chosen one. The rule: among the edits whose cost is at most 1, the one that removes the most
bias; where none is that cheap, the cheapest. A cost of 1 is exactly the budget of the metric of
which the edit takes the largest share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from countergen_edit.errors import UserError
from countergen_edit.metrics.base import Cost, Harm
from countergen_edit.metrics.rows import UNEDITED, Row


@dataclass(frozen=True)
class Point:
    """One edit: the share of the bias it removes, and what it costs by each metric."""

    edit: str
    removed: float
    harms: Mapping[str, Harm] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """The largest share of a budget that it takes."""
        return max((harm.share for harm in self.harms.values()), default=0.0)

    @property
    def is_affordable(self) -> bool:
        return self.cost <= 1

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The rule of the module's first lines as a sort key; more is better."""
        better = (self.removed, -self.cost) if self.is_affordable else (-self.cost, self.removed)
        return self.is_affordable, *better


def points(
    rows: Sequence[Row], split: str, costs: Sequence[Cost], *, baselines: bool = False
) -> list[Point]:
    """The edits of a split that have every figure the rule needs, in the order of their rows.

    Args:
        rows: of one task.
        split: whose figures.
        costs: the metrics with budgets.
        baselines: whether controls count; they are shown, never chosen.
    """
    by_edit: dict[str, list[Row]] = {}
    for row in rows:
        if row.split == split and (baselines or not row.baseline):
            by_edit.setdefault(row.edit, []).append(row)
    before = {cost.name: cost.counted(by_edit.get(UNEDITED, [])) for cost in costs}
    candidates = []
    for edit, of_edit in by_edit.items():
        removed = next((r.value for r in of_edit if r.metric == "bias_removed"), None)
        harms = {
            cost.name: cost.harm(was, now)
            for cost in costs
            if (was := before[cost.name]) and (now := cost.counted(of_edit))
        }
        measured = {name: harm for name, harm in harms.items() if harm is not None}
        needed = {name for name, row in before.items() if row is not None}
        if removed is not None and needed <= measured.keys():
            candidates.append(Point(edit, removed, measured))
    return candidates


def front(candidates: Sequence[Point]) -> list[Point]:
    """The points that no other beats in bias removed at equal or less cost, cheapest first.

    >>> def point(edit, removed, cost): return Point(edit, removed, {"kl": Harm(cost, 1.0)})
    >>> [p.edit for p in front([point("a", 0.9, 2), point("b", 0.8, 3), point("c", 0.5, 1)])]
    ['c', 'a']
    """
    kept: list[Point] = []
    for point in sorted(candidates, key=lambda p: (p.cost, -p.removed)):
        if not kept or point.removed > kept[-1].removed:
            kept.append(point)
    return kept


def choose(candidates: Sequence[Point]) -> Point:
    """The best point by the rule; of equals the first.

    Raises:
        UserError: there is none: every cell failed.
    """
    if not candidates:
        raise UserError("no edit was measured, so none can be chosen: every cell failed")
    return max(candidates, key=lambda p: p.rank)
