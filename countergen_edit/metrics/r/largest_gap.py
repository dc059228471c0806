"""The largest group effect among the pairs of a set of several groups.

The largest estimate exceeds the largest true effect on average; its interval therefore comes from
bands that hold for all pairs at once (Mandel and Betensky, Computational Statistics & Data Analysis
52, 2008): the draws of each pair are cut at one rank from either end, at which 95 % of the draws
lie within all bands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from countergen_edit.metrics.r.group_effect import PERMUTATIONS, GroupEffect, root
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import LEVEL, Estimate

LARGEST = "largest_gap"
"""The row of the largest group effect among the pairs of a set."""
PER_TEST = 50
"""Deals for each test of a table, so that Holm's correction can still find what is there."""


def permutations_for(count: int) -> int:
    """How many to draw of each of so many tests of one table."""
    return max(PERMUTATIONS, PER_TEST * count)


def effects_of(every: Sequence[SetScores], seed: int) -> list[GroupEffect]:
    """The group effect of every pair of every set, as tests of one table."""
    permutations = permutations_for(sum(len(scores.pairs) for scores in every))
    return [
        GroupEffect(pair, seed, len(scores.pairs) > 1, permutations)
        for scores in every
        for pair in scores.pairs
    ]


def largest_gap(effects: Sequence[GroupEffect]) -> tuple[GroupEffect, Estimate]:
    """The largest effect of the pairs of a set, and its G with a 95 % interval, in nats."""
    widest = max(effects, key=lambda effect: effect.squared)
    own = widest.estimate
    if np.isnan(own.lo):  # nothing can be drawn
        return widest, own
    value = own.value
    drawn = np.stack([root(effect.squared_draws[1:]) for effect in effects])
    lo, hi = bands(drawn)
    error = float(drawn.max(axis=0).std(ddof=1))
    return widest, Estimate(value, min(float(lo.max()), value), max(float(hi.max()), value), error)


def bands(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends, pair by pair, between which 95 % of the draws lie for all pairs at once.

    Args:
        drawn: draws, [pair, resample].
    """
    count = drawn.shape[1]
    ranks = drawn.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable") + 1
    outermost = np.maximum(ranks, count + 1 - ranks).max(axis=0)
    rank = int(np.quantile(outermost, LEVEL, method="higher"))
    ordered = np.sort(drawn, axis=1)
    return ordered[:, count - rank], ordered[:, rank - 1]
