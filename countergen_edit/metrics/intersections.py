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
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
from jaxtyping import Float64, Int

from countergen_edit.data.axis import Axis, DoesNotFitError
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.effect_rows import holm_tests, permutations_for
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores, shared

MARGINAL, INTERSECTION = "marginal_effect", "intersection"
CellWeights = tuple[float, ...]
About = tuple[str, str, str, str]
"""The set, the axis, and the one or two groups that a contrast is about."""


def cell_parts(axis: Axis, groups: Sequence[str]) -> list[Mapping[str, str]] | None:
    """The group of each cell on each axis; None where the table is incomplete."""
    if not axis.made_of or any(group not in axis.groups for group in groups):
        return None
    parts = [{a: axis.groups[group].parts.get(a, "") for a in axis.made_of} for group in groups]
    sizes = [len({cell[a] for cell in parts}) for a in axis.made_of]
    cells = {tuple(cell.values()) for cell in parts}
    whole = len(cells) == len(parts) == math.prod(sizes)
    return [*parts] if whole and min(sizes) > 1 else None


def marginals(parts: Sequence[Mapping[str, str]]) -> dict[tuple[str, str, str], CellWeights]:
    """Axis and two of its groups → the weights of the cells."""
    weights = {}
    for axis in parts[0]:
        values = [cell[axis] for cell in parts]
        for a, b in combinations(dict.fromkeys(values), 2):
            share = {a: 1 / values.count(a), b: -1 / values.count(b)}
            weights[axis, a, b] = tuple(share.get(value, 0.0) for value in values)
    return weights


def interactions(parts: Sequence[Mapping[str, str]]) -> list[CellWeights]:
    """The weights of the interaction of each cell."""
    count, axes = len(parts), [*parts[0]]
    interactions = []
    for number, cell in enumerate(parts):
        weights = np.full(count, (len(axes) - 1) / count)
        weights[number] += 1
        for axis in axes:
            alike = np.array([other[axis] == cell[axis] for other in parts])
            weights -= alike / alike.sum()
        interactions.append(tuple(weights.tolist()))
    return interactions


@dataclass(frozen=True)
class ContrastPeople:
    """The people of all groups: the part of `People` that a contrast needs."""

    difference: Float64[np.ndarray, " item"]
    residuals: Float64[np.ndarray, "person item"]
    """The part of each person in the noise of the contrast."""
    sides: tuple[Int[np.ndarray, " _"], ...]
    """The people of each list of names."""
    blocks: list[tuple[Int[np.ndarray, " person"], slice]]
    fewest: int
    """People of the smallest group."""
    person: None = None
    pair: None = None

    @classmethod
    def of(cls, scores: SetScores, weights: Sequence[float]) -> ContrastPeople:
        """The people of the groups with a weight; drawn where every prompt has the same ones."""
        weighed = [group for group, weight in enumerate(weights) if weight]
        lists = [shared(scores.data, scores.data.groups[group]) or () for group in weighed]
        side_of: dict[str, int] = {}
        for side, people in enumerate(dict.fromkeys(lists) if all(lists) else ()):
            for person in people:
                side_of.setdefault(person, side)
        place = {person: row for row, person in enumerate(side_of)}
        items = len(scores.output)
        means, noise = np.zeros((len(weights), items)), np.zeros((max(len(place), 1), items))
        for group, people in zip(weighed, lists, strict=True):
            log_p = np.where(scores.present[:, group], scores.log_p[:, group], np.nan)
            mean = np.nanmean(log_p, axis=1)
            means[group] = weights[group] * mean
            n = len(people)
            if place and n > 1:
                rows = [place[person] for person in people]
                scale = weights[group] / np.sqrt(n * (n - 1.0))
                noise[rows] += scale * (log_p[:, :n] - mean[:, None]).T
        sides = np.array([*side_of.values()] or [0])
        return cls(
            means.sum(axis=0),
            noise,
            tuple(np.flatnonzero(sides == one) for one in np.unique(sides)),
            [(np.arange(len(sides)), slice(None))],
            min(map(len, lists)) if place else 1,
        )


@dataclass(frozen=True)
class Contrast(GroupEffect):
    """The effect of a contrast on one set."""

    weights: tuple[float, ...] = ()
    """Of the groups of `scores`, in their order."""

    @cached_property
    def people(self) -> ContrastPeople:  # type: ignore[override]
        return ContrastPeople.of(self.scores, self.weights)

    def least_p(self, names: int | None = None) -> float:
        """The smallest P that the draws of the noise can give."""
        return 1 / (1 + self.permutations)

    @cached_property
    def p_value(self) -> float | None:
        """P of so large a mean d² if there were nothing but the noise of people."""
        if not self.has_spread:
            return None
        rng = self._rng("contrast", *self.weights)
        multipliers = rng.standard_normal((self.permutations, len(self._gram)))
        for side in self.people.sides:
            few = max(len(side) - 1, 1)
            multipliers[:, side] *= np.sqrt(few / rng.chisquare(few, self.permutations))[:, None]
        noise = ((multipliers @ self._gram) * multipliers).sum(axis=1)
        return float((1 + (noise >= self.observed.mean()).sum()) / (1 + len(noise)))


class Intersections(Metric):
    """Effects of each axis alone, and of every cell beyond both."""

    title = "Intersections"
    better: ClassVar[Mapping[str, Way]] = dict.fromkeys((MARGINAL, INTERSECTION), "lower")

    def prepare(self) -> None:
        for data in self.task.test:
            have_people = all(v.person for sample in data.samples for v in sample.variations)
            parts = cell_parts(self.task.axis, data.groups) if data.widest > 1 else None
            if have_people and parts and any(shared(data, group) is None for group in data.groups):
                raise DoesNotFitError(
                    f"intersections need the same people in every template, and set {data.name!r} "
                    "has others in each: give it anew: false, or the same names"
                )

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        marginal: dict[About, Contrast] = {}
        beyond: dict[About, Contrast] = {}
        for data in self.task.test if split == "test" else ():
            if (parts := cell_parts(self.task.axis, data.groups)) is None:
                continue
            scores = context.scores(data, edit)
            for groups, weights in marginals(parts).items():
                marginal[data.name, *groups] = Contrast(scores, context.seed, weights=weights)
            for group, weights in zip(data.groups, interactions(parts), strict=True):
                cell = data.name, data.axis, group, ""
                beyond[cell] = Contrast(scores, context.seed, weights=weights)
        return [*_rows(MARGINAL, marginal), *_rows(INTERSECTION, beyond)]


def _rows(kind: str, contrasts: Mapping[About, Contrast]) -> list[Row]:
    permutations = permutations_for(len(contrasts))
    effects = [replace(contrast, permutations=permutations) for contrast in contrasts.values()]
    rows = []
    for effect, test, (_, axis, a, b) in zip(effects, holm_tests(effects), contrasts, strict=True):
        detail = {"people": effect.people.fewest, "squared": effect.squared} | test
        columns = {"axis": axis, "group_a": a, "group_b": b, "n": effect.items, "detail": detail}
        rows.append(Row.of(kind, effect.estimate, effect.scores.data, **columns))
    return rows
