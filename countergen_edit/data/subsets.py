"""Subsets by a seed: names of an axis, and few variations, prompts or texts of a set.

Under one seed, a smaller subset is part of a larger one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import SPLITS, Axis, Group, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample

NAME_COUNTS: Mapping[str, int] = {
    "fit": 40,
    "few": 10,
    "agreement": 8,
    "validation": 12,
    "test": 24,
}
"""Default numbers of names per group: enough to tell a group from its people."""
FULLY_CROSSED = 2
"""Number of templates of a fitting set that are crossed with all drawn names. Crossing every
template with every name would cost too much."""


@dataclass(frozen=True)
class NameDraw:
    """Numbers of names per group to draw; None takes all."""

    fit: int | None = None
    few: int | None = None
    """Of those of `fit`, for the templates of a fitting set after the first."""
    agreement: int | None = None
    """Of those of `validation` and of `test`, for each template of agreement, round robin."""
    validation: int | None = None
    test: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for key in NAME_COUNTS:
            count = getattr(self, key)
            if count is not None and not _is_count(count):
                raise UserError(
                    f"names.{key}={count!r}: write how many names of a group, or null for all"
                )

    @classmethod
    def from_config(cls, names: Any, seed: int = 0) -> NameDraw:
        """Build from the setting `names`; missing keys are as in `NAME_COUNTS`, None takes all."""
        if names is None:
            return cls(seed=seed)
        if not isinstance(names, Mapping):
            raise UserError(f"names={names!r}: write names={{test: 24}}, or null for all")
        for key in names:
            if key not in NAME_COUNTS:
                raise unknown("names setting", key, NAME_COUNTS)
        return cls(**{**NAME_COUNTS, **names}, seed=seed)

    def draw(self, axis: Axis) -> Axis:
        """The axis with the drawn names of each split, in the order of its lists.

        In lists of equal length the same places are drawn, so that names stay paired.
        """
        return _with_names(axis, {s: self._places(axis, s, getattr(self, s)) for s in SPLITS})

    def thin(self, data: CounterfactualSet, axis: Axis) -> CounterfactualSet:
        """A fitting set whose templates after the first few keep only `few` names.

        Templates that are not crossed with the drawn names, such as those of a file, stay whole.
        """
        counts = [count for count in (self.fit, self.few) if count is not None]
        places = self._places(axis, "fit", min(counts, default=None))
        many, few = self.draw(axis).groups, _with_names(axis, {"fit": places}).groups
        samples = tuple(
            sample if i < FULLY_CROSSED else _with_few(sample, data.groups, many, few)
            for i, sample in enumerate(data.samples)
        )
        return replace(data, samples=samples)

    def _places(self, axis: Axis, split: Split, count: int | None) -> dict[str, list[int]]:
        """Group → places of the drawn names in its list."""
        lengths = {
            g.name: len(names) for g in axis.groups.values() if (names := g.names.get(split))
        }
        if count is None:
            return {group: [*range(length)] for group, length in lengths.items()}
        are_paired = len(set(lengths.values())) == 1
        shortest = min(lengths.values(), default=0)
        places = {}
        for group, length in lengths.items():
            unit = ("names", axis.name, split) if are_paired else ("names", axis.name, split, group)
            order = generator(self.seed, *unit).permutation(length)
            places[group] = np.sort(order[: min(count, shortest)]).tolist()
        return places


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def first_names(axis: Axis, count: int) -> Axis:
    """The axis with the first names of every list."""
    if not _is_count(count):
        raise UserError(f"first_names={count!r}: write how many names of a group")
    splits: dict[Split, dict[str, list[int]]] = {
        split: {g.name: [*range(len(g.names.get(split, ())))][:count] for g in axis.groups.values()}
        for split in SPLITS
    }
    return _with_names(axis, splits)


def _with_names(axis: Axis, places: Mapping[Split, Mapping[str, list[int]]]) -> Axis:
    """The axis with the names at some places of its lists."""
    groups = {
        group.name: replace(
            group,
            names={
                split: tuple(names[i] for i in places.get(split, {}).get(group.name, ()))
                for split, names in group.names.items()
            },
        )
        for group in axis.groups.values()
    }
    return replace(axis, groups=groups)


def _with_few(
    sample: Sample, compared: tuple[str, ...], many: Mapping[str, Group], few: Mapping[str, Group]
) -> Sample:
    for group in compared:
        if tuple(v.name for v in sample.of(group)) != many[group].names.get("fit"):
            return sample
    kept = {name for group in compared for name in few[group].names.get("fit", ())}
    return replace(sample, variations=tuple(v for v in sample.variations if v.name in kept))


def first_drawn(count: int, most: int, seed: int, *unit: object) -> list[int]:
    """At most `most` of `count` indices: the first of one random order, sorted.

    >>> set(first_drawn(9, 3, 0)) <= set(first_drawn(9, 5, 0))
    True
    """
    order = generator(seed, "few", *unit, count).permutation(count)
    return sorted(int(i) for i in order[:most])


def few_variations(data: CounterfactualSet, most: int, seed: int) -> CounterfactualSet:
    """The set with at most `most` variations per group in each sample.

    Paired variations stay or go together, and samples of equal size keep the same names.
    """
    if data.widest <= most:
        return data

    def few(sample: Sample) -> Sample:
        sides = [sample.of(group) for group in data.groups]
        kept = first_drawn(len(sides[0]), most, seed, "names")
        return replace(sample, variations=tuple(side[i] for side in sides for i in kept))

    return replace(data, samples=tuple(few(sample) for sample in data.samples))


def round_robin(data: CounterfactualSet, most: int) -> CounterfactualSet:
    """The set with at most `most` variations per group in each sample, other ones in the next.

    Paired variations stay or go together.
    """

    def few(number: int, sample: Sample) -> Sample:
        sides = [sample.of(group) for group in data.groups]
        size = len(sides[0])
        if size <= most:
            return sample
        kept = sorted((number * most + k) % size for k in range(most))
        return replace(sample, variations=tuple(side[i] for side in sides for i in kept))

    return replace(data, samples=tuple(few(i, sample) for i, sample in enumerate(data.samples)))


def few_prompts(data: CounterfactualSet, most: int, seed: int) -> CounterfactualSet:
    """The set with at most `most` of its samples."""
    kept = first_drawn(len(data.samples), most, seed, "prompts", data.name)
    return replace(data, samples=tuple(data.samples[i] for i in kept))


def few_texts(texts: Sequence[str], most: int, seed: int) -> tuple[str, ...]:
    """At most `most` of the texts."""
    return tuple(texts[i] for i in first_drawn(len(texts), most, seed, "texts"))
