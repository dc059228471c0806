"""The group effect of a contrast of several groups: weights that sum to 0; +1 and −1 are a pair.

Of an item let d be the weighted sum of the groups' mean log-probabilities. No permutation of groups
makes a contrast of several vanish, so that P is that of the noise alone, drawn with Gaussian
multipliers as Student's t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int

from countergen_edit.core.seeds import generator
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import SetScores


@dataclass(frozen=True)
class ContrastPeople:
    """The people of all groups, for the properties of `People` that a contrast has."""

    difference: Float64[np.ndarray, " item"]
    residuals: Float64[np.ndarray, "person item"]
    """What each person adds to the noise of the contrast."""
    side: Int[np.ndarray, " person"]
    """The list of names that each person stands in."""
    fewest: int
    """People of the smallest group."""

    @property
    def sides(self) -> tuple[Int[np.ndarray, " own"], ...]:
        return tuple(np.flatnonzero(self.side == side) for side in np.unique(self.side))

    @property
    def block(self) -> Int[np.ndarray, " person"]:
        return np.zeros_like(self.side)


@dataclass(frozen=True)
class Contrast(GroupEffect):
    """The effect of a contrast on one set.

    Attributes:
        weights: of the groups of `scores`, in their order.
    """

    weights: tuple[float, ...] = ()

    @cached_property
    def people(self) -> ContrastPeople:  # type: ignore[override]
        return contrast_people(self.scores, self.weights)

    def least_p(self, names: int | None = None) -> float:
        """The smallest P that so many draws of the noise can give, with any number of people."""
        return 1 / (1 + self.permutations)

    @cached_property
    def p_value(self) -> float | None:
        """P of so large a mean d² if there were nothing but the noise of people."""
        if not self.has_spread:
            return None
        rng = generator(self.seed, self.scores.data.name, "contrast", *self.weights)
        multipliers = rng.standard_normal((self.permutations, len(self._gram)))
        for own in self.people.sides:
            few = max(len(own) - 1, 1)
            multipliers[:, own] *= np.sqrt(few / rng.chisquare(few, self.permutations))[:, None]
        noise = ((multipliers @ self._gram) * multipliers).sum(axis=1)
        observed = float((self.people.difference**2).mean())
        return float((1 + (noise >= observed).sum()) / (1 + len(noise)))


def contrast_people(scores: SetScores, weights: Sequence[float]) -> ContrastPeople:
    """The people of all groups that have a weight, with their noise.

    People are names where every prompt is asked of the same ones; else nobody can be drawn.
    """
    lists = [scores.names(side) for side in range(len(weights))]
    known = [names for names, weight in zip(lists, weights, strict=True) if weight]
    people = [names or () for names in known] if all(known) else []
    side_of: dict[str, int] = {}
    for side, names in enumerate(dict.fromkeys(people)):
        side_of |= {name: side for name in names if name not in side_of}
    place = {name: row for row, name in enumerate(side_of)}
    items = len(scores.output)
    means, noise = np.zeros((len(weights), items)), np.zeros((max(len(place), 1), items))
    for group, weight in enumerate(weights):
        if not weight:
            continue
        log_p = np.where(scores.present[:, group], scores.log_p[:, group], np.nan)
        mean = np.nanmean(log_p, axis=1)
        means[group] = weight * mean
        own = lists[group] or ()
        if people and len(own) > 1:
            scale = weight / np.sqrt(len(own) * (len(own) - 1.0))
            rows = [place[name] for name in own]
            noise[rows] += scale * (log_p[:, : len(own)] - mean[:, None]).T
    return ContrastPeople(
        means.sum(axis=0),
        noise,
        np.array([*side_of.values()] or [0]),
        min(map(len, people), default=1),
    )
