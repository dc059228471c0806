"""The names of a set: residuals of their log-probabilities about the mean of their group.

Without names that all prompts share, the variations of each prompt take their place; people drawn
anew for each prompt may come back in another. Twins are the names of both groups, which other words
tell apart; their two residuals are one, since a leaning of both is not noise of the difference.
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

_PerPerson = Int[np.ndarray, " person"]
_Deals = Float64[np.ndarray, "deal person"]


@dataclass(frozen=True)
class People:
    """The people of both groups; NaN where an item has no prompt about a person."""

    log_p: Float64[np.ndarray, "row item"]
    """Natural log; where people are drawn anew, a row is a place in the lists of all blocks."""
    side: Int[np.ndarray, " row"]
    """Each row's group, 0 or 1."""
    starts: Int[np.ndarray, " block"]
    """The first item of each block, whose people have its items alone."""
    twins: bool = False
    """Whether the second group are the people of the first, in the same order."""
    person: _PerPerson | None = None
    """Where people are drawn anew, the number of each person, block by block."""
    pair: _PerPerson | None = None
    """Likewise, one number for two people at the same places."""

    @classmethod
    def of(cls, scores: SetScores) -> People:
        """Names where every sample has the same ones, else the variations of each."""
        log_p = np.where(scores.present, scores.log_p, np.nan)
        table = np.ascontiguousarray(log_p.reshape(len(log_p), -1).T)
        side = np.repeat([0, 1], log_p.shape[2])
        if (samples := scores.pairs_of_people) is None:
            have_names = scores.names(0) is not None and scores.names(1) is not None
            return cls(table, side, scores.first[:1] if have_names else scores.first, scores.twins)
        # Rows of a sample are those of the first group, then those of the second.
        people = [(s, pair[s]) for pairs in samples for s in (0, 1) for pair in pairs]
        pairs = [pair for pairs in samples for _ in (0, 1) for pair in pairs]
        return cls(table, side, scores.first, scores.twins, numbered(people), numbered(pairs))

    @cached_property
    def places(self) -> tuple[_PerPerson, _PerPerson]:
        """The block and the row of each person, block by block."""
        block, row = np.nonzero(~np.isnan(self.log_p[:, self.starts]).T)
        return block, row

    @cached_property
    def blocks(self) -> list[tuple[_PerPerson, slice]]:
        """The rows of the people and the items of each block."""
        block, row = self.places
        rows = np.split(row, np.searchsorted(block, np.arange(1, len(self.starts))))
        items = map(slice, self.starts, [*self.starts[1:], self.log_p.shape[1]])
        return [*zip(rows, items, strict=True)]

    @property
    def counts(self) -> Int[np.ndarray, "side item"]:
        """People of each group whose prompts have an item."""
        present = ~np.isnan(self.log_p)
        return np.stack([present[self.side == side].sum(axis=0) for side in (0, 1)])

    @property
    def fewest(self) -> int:
        """People of the smaller group of the item with fewest."""
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
    def sides(self) -> tuple[_PerPerson, ...]:
        """The people of either group, whose residuals are independent; of twins the first."""
        _, row = self.places
        if self.twins:
            return (np.arange(len(row) // 2),)
        return np.flatnonzero(self.side[row] == 0), np.flatnonzero(self.side[row] == 1)

    @property
    def residuals(self) -> Float64[np.ndarray, "row item"]:
        """The part of each person in the noise of `difference`; zero without a prompt.

        The squares of an item's column sum to the sampling variance s²/n of the first mean plus
        that of the second. One person of a group, such as a pronoun, has no spread: all are zero.
        """
        means, counts = self.means[self.side], self.counts[self.side]
        scale = np.sqrt(counts * (counts - 1.0)) if counts.min() > 1 else np.inf
        scaled = (self.log_p - means) / scale
        signed = np.where(self.side == 0, 1.0, -1.0)[:, None] * scaled
        noise = np.where(np.isnan(self.log_p), 0.0, signed)
        return noise[self.side == 0] + noise[self.side == 1] if self.twins else noise

    def deals(self, names: int | None = None) -> int:
        """The number of ways to deal out the groups among these people, or `names` a group."""
        if self.pair is not None:
            return 1 << (names * len(self.starts) if names else len(np.unique(self.pair)))
        if self.twins:
            return 1 << (names or len(self.side) // 2)
        counts = (names or len(rows) // 2 for rows, _ in self.blocks)
        return math.prod(math.comb(2 * count, count) for count in counts)

    def least_p(self, names: int | None = None) -> float:
        """The smallest P that all deals can give."""
        # Swapping the groups of a block leaves the statistic, a sum over blocks, as it is.
        blocks = 1 if self.twins or self.pair is not None else len(self.starts)
        return float(2**blocks / self.deals(names))  # whole numbers, as they may be huge

    def every_deal(self, rows: _PerPerson) -> _Deals:
        """Weights of a block's people as `dealt` has them, of every deal."""
        side = self.side[rows]
        half = len(side) // 2
        if self.twins:
            signs = np.array([*product([1.0, -1.0], repeat=half)])
            return np.concatenate([signs, -signs], axis=1) / half
        observed = tuple(np.flatnonzero(side == 0).tolist())
        deals = sorted(combinations(range(len(side)), half), key=lambda deal: deal != observed)
        weights = np.full((len(deals), len(side)), -1.0)
        np.put_along_axis(weights, np.array(deals), 1.0, axis=1)
        return weights / half

    def differences_of_pairs(self) -> csr_array:
        """The part of each pair of people in `difference`, [pair, item]."""
        assert self.pair is not None
        shares = np.nan_to_num(self.log_p) / self.counts[self.side]
        shares *= np.where(self.side == 0, 1.0, -1.0)[:, None]
        pair = np.full((len(self.side), len(self.starts)), -1)
        pair[self.places[::-1]] = self.pair
        pair = np.repeat(pair, np.diff([*self.starts, shares.shape[1]]), axis=1)
        cells = np.nonzero(pair >= 0)
        size = int(self.pair.max()) + 1, shares.shape[1]
        return csr_array((shares[cells], (pair[cells], cells[1])), size)

    def dealt(self, rows: _PerPerson, rng: np.random.Generator, count: int) -> _Deals:
        """Weights of a block's people in the difference of group means: as observed, then dealt."""
        side = self.side[rows]
        weights = np.where(side == 0, 1 / (side == 0).sum(), -1 / (side == 1).sum())
        if self.twins:
            dealt = np.tile(rng.choice([-1.0, 1.0], (count, len(side) // 2)), 2) * weights
        else:
            dealt = rng.permuted(np.tile(weights, (count, 1)), axis=1)
        return np.concatenate([weights[None], dealt])


def numbered(units: Sequence[object]) -> Int[np.ndarray, " row"]:
    """One number for each distinct unit."""
    index = {unit: i for i, unit in enumerate(dict.fromkeys(units))}
    return np.array([index[unit] for unit in units])
