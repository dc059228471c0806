"""Intersections: effects of crossed axes, of each alone and of every cell beyond both.

Every group of crossed axes is a cell of a table. Let m be a cell's mean log-probability of an item
(one output after one template) over its names. A marginal effect is the difference between the
cells of two groups of one axis, averaged over the others. An intersection is the interaction of
analysis of variance: m minus the sum of its marginal means, plus the overall mean once for each
further axis. Both are contrasts of cells, weights that sum to 0, measured like the group effect, in
nats. No permutation of groups makes a contrast of several vanish, so that P is that of the noise
alone, drawn with Gaussian multipliers as Student's t.

Rows: `marginal_effect` of every two groups of each axis, and `intersection` of every cell, for sets
with a complete table; P is Holm's over all sets, by kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from jaxtyping import Float64, Int

from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import Axis, DoesNotFitError
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.effect_rows import holm_tests, permutations_for
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores

MARGINAL, INTERSECTION = "marginal_effect", "intersection"
CellWeights = tuple[float, ...]
About = tuple[str, str, str]
"""The axis, and the one or two groups that a contrast is about."""
ScoredContrast = tuple[SetScores, About, CellWeights]


def cell_parts(axis: Axis, groups: Sequence[str]) -> list[Mapping[str, str]] | None:
    """The group of each cell on each axis; None where the table is incomplete.

    >>> from countergen_edit.data.axis import Group
    >>> cells = {g: Group(g, {}, {}, {"x": g[0], "y": g[1]}) for g in ("ac", "ad", "bc", "bd")}
    >>> axis = Axis("x_y", cells, ("x", "y"))
    >>> len(cell_parts(axis, [*cells])), cell_parts(axis, ["ac", "ad", "bc"])
    (4, None)
    """
    if not axis.made_of or any(group not in axis.groups for group in groups):
        return None
    parts = [{a: axis.groups[group].parts.get(a, "") for a in axis.made_of} for group in groups]
    values = [{own[a] for own in parts} for a in axis.made_of]
    places = {tuple(own.values()) for own in parts}
    whole = len(places) == len(parts) == math.prod(map(len, values))
    return [*parts] if whole and all(len(own) > 1 for own in values) else None


def marginals(parts: Sequence[Mapping[str, str]]) -> dict[tuple[str, str, str], CellWeights]:
    """Axis and two of its groups → the weights of the cells."""
    found = {}
    for axis in parts[0]:
        values = [own[axis] for own in parts]
        for a, b in combinations(dict.fromkeys(values), 2):
            share = {a: 1 / values.count(a), b: -1 / values.count(b)}
            found[axis, a, b] = tuple(share.get(value, 0.0) for value in values)
    return found


def interactions(parts: Sequence[Mapping[str, str]]) -> list[CellWeights]:
    """CellWeights of the interaction of each cell."""
    count, axes = len(parts), [*parts[0]]
    found = []
    for cell, own in enumerate(parts):
        weights = np.full(count, (len(axes) - 1) / count)
        weights[cell] += 1
        for axis in axes:
            alike = np.array([other[axis] == own[axis] for other in parts])
            weights -= alike / alike.sum()
        found.append(tuple(weights.tolist()))
    return found


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
    person: None = None
    pair: None = None

    @property
    def sides(self) -> tuple[Int[np.ndarray, " own"], ...]:
        return tuple(np.flatnonzero(self.side == side) for side in np.unique(self.side))

    @property
    def blocks(self) -> list[tuple[Int[np.ndarray, " person"], slice]]:
        return [(np.arange(len(self.side)), slice(None))]


@dataclass(frozen=True)
class Contrast(GroupEffect):
    """The effect of a contrast on one set."""

    weights: tuple[float, ...] = ()
    """Of the groups of `scores`, in their order."""

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

    People can be drawn where every prompt is asked of the same ones.
    """
    lists = [shared_people(scores.data, group) for group in scores.data.groups]
    known = [own for own, weight in zip(lists, weights, strict=True) if weight]
    people = [own or () for own in known] if all(known) else []
    side_of: dict[str, int] = {}
    for side, own in enumerate(dict.fromkeys(people)):
        side_of |= {person: side for person in own if person not in side_of}
    place = {person: row for row, person in enumerate(side_of)}
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
            rows = [place[person] for person in own]
            noise[rows] += scale * (log_p[:, : len(own)] - mean[:, None]).T
    return ContrastPeople(
        means.sum(axis=0),
        noise,
        np.array([*side_of.values()] or [0]),
        min(map(len, people), default=1),
    )


def shared_people(data: CounterfactualSet, group: str) -> tuple[str, ...] | None:
    """The people of a group, if every sample has the same; else None."""
    lists = {tuple(v.person for v in sample.of(group)) for sample in data.samples}
    people = tuple(person for person in next(iter(lists)) if person)
    return people if lists == {people} else None


class Intersections(Metric):
    """Effects of each axis alone, and of every cell beyond both."""

    title = "Intersections"
    better: ClassVar[Mapping[str, Way]] = dict.fromkeys((MARGINAL, INTERSECTION), "lower")

    def prepare(self) -> None:
        for data in self.task.test:
            known = all(v.person for sample in data.samples for v in sample.variations)
            if not known or data.widest == 1 or cell_parts(self.task.axis, data.groups) is None:
                continue
            if any(shared_people(data, group) is None for group in data.groups):
                raise DoesNotFitError(
                    f"intersections need the same people in every template, and set {data.name!r} "
                    "has others in each: give it anew: false, or the same names"
                )

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        by_kind: dict[str, list[ScoredContrast]] = {MARGINAL: [], INTERSECTION: []}
        for data in self.task.test if split == "test" else ():
            parts = cell_parts(self.task.axis, data.groups)
            if parts is None:
                continue
            scores = context.scores(data, edit)
            by_kind[MARGINAL] += ((scores, key, w) for key, w in marginals(parts).items())
            by_kind[INTERSECTION] += (
                (scores, (data.axis, group, ""), w)
                for group, w in zip(data.groups, interactions(parts), strict=True)
            )
        return [
            row
            for kind, contrasts in by_kind.items()
            for row in _rows(kind, contrasts, context.seed)
        ]


def _rows(kind: str, contrasts: Sequence[ScoredContrast], seed: int) -> list[Row]:
    permutations = permutations_for(len(contrasts))
    effects = [
        Contrast(scores, seed, permutations=permutations, weights=weights)
        for scores, _, weights in contrasts
    ]
    rows = []
    for effect, test, (scores, (axis, a, b), _) in zip(
        effects, holm_tests(effects), contrasts, strict=True
    ):
        detail = {"people": effect.people.fewest, "squared": effect.squared} | test
        about = {"axis": axis, "group_a": a, "group_b": b, "detail": detail}
        rows.append(Row.of(kind, effect.estimate, scores.data, n=effect.items, **about))
    return rows
