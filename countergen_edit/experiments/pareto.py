"""Which edit is best: bias removed against cost, and a rule that never looks at test data.

Comes in: rows of one split. Goes out: points, their Pareto front, and the chosen one. The rule:
among the edits whose cost is at most 1, the one that removes the most bias; where none is that
cheap, the cheapest. A cost of 1 is exactly what is tolerated of the worst of agreement lost,
neutral perplexity gained and KL divergence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from countergen_edit.errors import UserError
from countergen_edit.metrics.base import UNEDITED
from countergen_edit.metrics.rows import Row


@dataclass(frozen=True)
class Tolerance:
    """What an edit may cost.

    Attributes:
        agreement: Most that the probability of the right form may fall, 0.005 being half a point.
        perplexity: Most that perplexity on neutral text may rise, as a share of it.
        kl: Most that next-token distributions on neutral text may move, in nats a token.
    """

    agreement: float = 0.005
    perplexity: float = 0.01
    kl: float = math.inf

    def __post_init__(self) -> None:
        for name in ("agreement", "perplexity", "kl"):
            if not getattr(self, name) > 0:
                raise UserError(f"tolerance.{name}={getattr(self, name)} must be above 0")

    def cost(self, agreement_lost: float, perplexity_ratio: float, kl: float = 0.0) -> float:
        """Cost in units of what is tolerated; an edit that improves all costs nothing.

        >>> Tolerance(agreement=0.005, perplexity=0.01).cost(0.001, 1.005)
        0.5
        """
        gained = round(perplexity_ratio - 1, 12)
        return max(0.0, agreement_lost / self.agreement, gained / self.perplexity, kl / self.kl)


@dataclass(frozen=True)
class Point:
    """One edit: the share of mean |R| it removes, and what it costs."""

    edit: str
    removed: float
    cost: float
    agreement_lost: float = 0.0
    perplexity_ratio: float = 1.0
    kl: float = 0.0

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The rule of the module's first lines as a sort key; more is better."""
        affordable = self.cost <= 1
        return affordable, *(
            (self.removed, -self.cost) if affordable else (-self.cost, self.removed)
        )


def points(
    rows: Sequence[Row], split: str, tolerance: Tolerance, *, baselines: bool = False
) -> list[Point]:
    """The edits of a split that have every figure the rule needs, in the order of their rows.

    Args:
        rows: of one axis.
        split: whose figures.
        tolerance: the unit of cost.
        baselines: whether random directions count; they are shown, never chosen.
    """
    rows = [row for row in rows if baselines or not row.is_baseline]
    removed = _by_edit(rows, split, "bias_removed")
    agreement = _by_edit([r for r in rows if r.group_b], split, "agreement")
    perplexity, kl = (_by_edit(rows, split, metric) for metric in ("perplexity_ratio", "kl"))
    found = []
    for edit, share in removed.items():
        if edit in agreement and edit in perplexity:
            lost = agreement[UNEDITED] - agreement[edit]
            moved = kl.get(edit, 0.0)
            cost = tolerance.cost(lost, perplexity[edit], moved)
            found.append(Point(edit, share, cost, lost, perplexity[edit], moved))
    return found


def _by_edit(rows: Sequence[Row], split: str, metric: str) -> dict[str, float]:
    return {
        r.edit: r.value
        for r in rows
        if r.metric == metric and r.split == split and r.value is not None
    }


def front(candidates: Sequence[Point]) -> list[Point]:
    """The points that no other beats in bias removed at equal or less cost, cheapest first.

    >>> [p.edit for p in front([Point("a", 0.9, 2), Point("b", 0.8, 3), Point("c", 0.5, 1)])]
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
