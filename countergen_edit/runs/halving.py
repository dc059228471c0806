"""Successive halving: the layers that are worth all validation data, found on little of it.

Each group (an eraser at one site) starts with a coarse grid of its layers, measured on few names
and texts. Candidates that are worse than the best beyond chance, or dearer than any budget, fall
away; at most a third stay; layers halfway to the measured neighbours enter; the sample grows.

After Jamieson and Talwalkar (AISTATS 2016), with paired resamples of names and templates.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from countergen_edit.decisions.selection import Point, ordered

ERRORS = 2.0
"""Paired standard errors by which a beaten candidate is worse."""
HOPELESS = 2.0
"""Cost in budgets beyond which a candidate falls away unless its interval reaches one."""
AMPLE = 0.5
"""Up to this share of the budgets, a candidate beats cheaper ones too."""


@dataclass(frozen=True)
class Halving:
    """The settings of successive halving.

    Parameters
    ----------
    coarse : layers of the first grid, at least 2; no more layers are all measured in full
    share : of the validation data, for the first rung
    """

    coarse: int = 8
    share: float = 1 / 3

    def grid(self, count: int) -> list[int]:
        """The first indices of so many layers.

        >>> Halving().grid(30)
        [0, 4, 8, 12, 17, 21, 25, 29]
        """
        if count <= self.coarse:
            return list(range(count))
        return sorted({round(i) for i in np.linspace(0, count - 1, self.coarse)})

    def shares(self, layers: int) -> list[float]:
        """Share of the data of each rung before the last; none where all is measured at once.

        The gap between measured layers halves from rung to rung; data grow by a constant factor.

        >>> [round(share, 2) for share in Halving().shares(30)], Halving().shares(6)
        ([0.33, 0.58], [])
        """
        if layers <= self.coarse:
            return []
        rungs = max(1, math.ceil(math.log2((layers - 1) / (self.coarse - 1)) - 0.25))
        return [self.share ** (1 - r / rungs) for r in range(rungs)]


def between(measured: Collection[int], kept: Collection[int]) -> list[int]:
    """Indices halfway between each that is kept and the measured ones next to it.

    >>> between([0, 4, 8, 12], [4])
    [2, 6]
    >>> between([2, 4, 5], [4])
    [3]
    """
    gaps = [(a, b) for a, b in pairwise(sorted(measured)) if b - a > 1]
    return [(a + b) // 2 for a, b in gaps if a in kept or b in kept]


def survivors(candidates: Sequence[Point], most: int) -> list[Point]:
    """The candidates that stay, best first: at most so many, and none that is surely beaten.

    A hopeless candidate costs several budgets, with intervals that reach none; it falls away where
    another is worthwhile. A beaten one removes less beyond the paired error of the difference, at a
    price that is not lower or hardly matters. Intervals may reach 0, as few data are noisy.
    """
    candidates = [replace(p, is_shown=True) for p in candidates]
    if any(p.is_worthwhile for p in candidates):
        candidates = [p for p in candidates if p.cost <= HOPELESS or p.least_cost <= 1]
    best = ordered(candidates)
    return [p for p in best if not any(_beats(q, p) for q in best)][:most]


def _beats(better: Point, worse: Point) -> bool:
    if not better.draws or not worse.draws or better.cost > max(worse.cost, AMPLE):
        return False
    differences = np.subtract(better.draws, worse.draws)
    return better.removed - worse.removed > ERRORS * float(differences.std(ddof=1))
