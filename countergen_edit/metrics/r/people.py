"""The names of a set: residuals of their log-probabilities about the mean of their group.

The squares of an item's residuals sum to the sampling variance of the group difference. Without
names that all prompts share, the variations of each prompt take their place; people drawn anew for
each prompt may come back in another. Twins are the names of both groups, which other words tell
apart; the two residuals of a twin are one, since a leaning of both is not noise of the difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

import numpy as np
from jaxtyping import Float64, Int
from scipy.sparse import csr_array

from countergen_edit.metrics.scores import SetScores


@dataclass(frozen=True)
class People:
    """The people of both groups; an item that a person is not asked about is NaN."""

    log_p: Float64[np.ndarray, "row item"]
    """Natural log; where people are drawn anew, a row is a place in the lists of all blocks."""
    side: Int[np.ndarray, " row"]
    """Each row's group, 0 or 1."""
    starts: Int[np.ndarray, " block"]
    """The first item of each block, whose people are asked about its items alone."""
    twins: bool = False
    """Whether the second group are the people of the first, in the same order."""
    person: Int[np.ndarray, " person"] | None = None
    """Where people are drawn anew for each prompt, block by block: one number is one person."""
    pair: Int[np.ndarray, " person"] | None = None
    """Where people are drawn anew: one number is of two people at the same places."""

    @classmethod
    def of(cls, scores: SetScores) -> People:
        """Names where every sample is asked of the same ones, else the variations of each."""
        everybody = scores.names(0) is not None and scores.names(1) is not None
        starts, known = scores.first, np.where(scores.present, scores.log_p, np.nan)
        table = np.ascontiguousarray(known.reshape(len(known), -1).T)
        side, twins = np.repeat([0, 1], known.shape[2]), scores.twins
        if (pairs := scores.pairs_of_people) is None:
            return cls(table, side, starts[:1] if everybody else starts, twins)
        # Rows of a sample are those of the first group, then those of the second.
        people = [(s, own[s]) for pair in pairs for s in (0, 1) for own in pair]
        both = [own for pair in pairs for _ in (0, 1) for own in pair]
        return cls(table, side, starts, twins, numbered(people), numbered(both))

    @cached_property
    def places(self) -> tuple[Int[np.ndarray, " person"], Int[np.ndarray, " person"]]:
        """The block and the row of each person, block by block."""
        block, row = np.nonzero(~np.isnan(self.log_p[:, self.starts]).T)
        return block, row

    @cached_property
    def blocks(self) -> list[tuple[Int[np.ndarray, " own"], slice]]:
        """The rows of the people and the items of each block."""
        block, row = self.places
        rows = np.split(row, np.searchsorted(block, np.arange(1, len(self.starts))))
        items = map(slice, self.starts, [*self.starts[1:], self.log_p.shape[1]])
        return [*zip(rows, items, strict=True)]

    @property
    def counts(self) -> Int[np.ndarray, "side item"]:
        """People of each group that are asked about an item."""
        asked = ~np.isnan(self.log_p)
        return np.stack([asked[self.side == side].sum(axis=0) for side in (0, 1)])

    @property
    def fewest(self) -> int:
        """People of the smaller group about the item with fewest."""
        return int(self.counts.min())

    @property
    def means(self) -> Float64[np.ndarray, "side item"]:
        return np.stack([np.nanmean(self.log_p[self.side == side], axis=0) for side in (0, 1)])

    @property
    def difference(self) -> Float64[np.ndarray, " item"]:
        """The first group's mean log-probability minus the second's, nats."""
        first, second = self.means
        return np.asarray(first - second)

    @property
    def sides(self) -> tuple[Int[np.ndarray, " own"], ...]:
        """The people of either group, whose residuals are independent; of twins the first."""
        _, row = self.places
        if self.twins:
            return (np.arange(len(row) // 2),)
        return np.flatnonzero(self.side[row] == 0), np.flatnonzero(self.side[row] == 1)

    @property
    def residuals(self) -> Float64[np.ndarray, "row item"]:
        """What each person adds to the noise of `difference`; zero where nobody is asked.

        The squares of an item's column sum to the sampling variance s²/n of the first mean plus
        that of the second. One person of a group, such as a pronoun, has no spread: all are zero.
        """
        means, counts = self.means[self.side], self.counts[self.side]
        scale = np.sqrt(counts * (counts - 1.0)) if counts.min() > 1 else np.inf
        scaled = (self.log_p - means) / scale
        signed = np.where(self.side == 0, 1.0, -1.0)[:, None] * scaled
        own = np.where(np.isnan(self.log_p), 0.0, signed)
        return own[self.side == 0] + own[self.side == 1] if self.twins else own

    def deals(self, names: int | None = None) -> int:
        """In how many ways the groups can be dealt out among these people, or `names` a group."""
        if self.pair is not None:
            return 1 << (names * len(self.starts) if names else len(np.unique(self.pair)))
        if self.twins:
            return 1 << (names or len(self.side) // 2)
        counts = (names or len(rows) // 2 for rows, _ in self.blocks)
        return math.prod(math.comb(2 * count, count) for count in counts)

    def least_p(self, names: int | None = None) -> float:
        """The smallest P that all deals can give.

        The statistic is a sum over blocks, and stays as it is where those of a block are turned
        round.
        """
        blocks = 1 if self.twins or self.pair is not None else len(self.starts)
        share: float = 2**blocks / self.deals(names)  # whole numbers, as they may be huge
        return share

    def every_deal(self, rows: Int[np.ndarray, " own"]) -> Float64[np.ndarray, "deal own"]:
        """Weights of a block's people as `dealt` has them, of every deal."""
        side = self.side[rows]
        half = len(side) // 2
        if self.twins:
            signs = np.array([*product([1.0, -1.0], repeat=half)])
            return np.concatenate([signs, -signs], axis=1) / half
        own = tuple(np.flatnonzero(side == 0).tolist())
        chosen = [own, *(some for some in combinations(range(len(side)), half) if some != own)]
        weights = np.full((len(chosen), len(side)), -1.0)
        np.put_along_axis(weights, np.array(chosen), 1.0, axis=1)
        return weights / half

    def differences_of_pairs(self) -> csr_array:
        """What each pair of people adds to `difference`, [pair, item]."""
        assert self.pair is not None
        shares = np.nan_to_num(self.log_p) / self.counts[self.side]
        shares *= np.where(self.side == 0, 1.0, -1.0)[:, None]
        own = np.full((len(self.side), len(self.starts)), -1)
        own[self.places[::-1]] = self.pair
        own = np.repeat(own, np.diff([*self.starts, shares.shape[1]]), axis=1)
        cells = np.nonzero(own >= 0)
        size = int(self.pair.max()) + 1, shares.shape[1]
        return csr_array((shares[cells], (own[cells], cells[1])), size)

    def dealt(
        self, rows: Int[np.ndarray, " own"], rng: np.random.Generator, count: int
    ) -> Float64[np.ndarray, "deal own"]:
        """Weights of a block's people in the difference of the means of two groups: first as they
        are, then as they are dealt out at random, twins one to each side."""
        side = self.side[rows]
        weights = np.where(side == 0, 1 / (side == 0).sum(), -1 / (side == 1).sum())
        if self.twins:
            signs = rng.choice([-1.0, 1.0], (count, len(side) // 2))
            dealt = np.tile(signs, 2) * weights
        else:
            dealt = rng.permuted(np.tile(weights, (count, 1)), axis=1)
        return np.concatenate([weights[None], dealt])


def numbered(units: Sequence[object]) -> Int[np.ndarray, " row"]:
    """One number for each distinct unit."""
    index = {unit: i for i, unit in enumerate(dict.fromkeys(units))}
    return np.array([index[unit] for unit in units])
