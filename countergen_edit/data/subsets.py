"""Subsets by a seed: names of an axis, and few variations, prompts or texts of a set.

Under one seed, a smaller subset is part of a larger one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from annotated_types import Gt

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.seeds import generator
from countergen_edit.core.typed import require
from countergen_edit.data.axis import NAME_COUNTS, Axis, Group, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample

LEAST_VARIATIONS = 2
"""Of each group in a sample, where a set becomes smaller."""
FULLY_CROSSED = 2
"""Number of templates of a fitting set that are crossed with all drawn names."""


@dataclass(frozen=True)
class NameDraw:
    """Numbers of names per group to draw; None takes all.

    `few` of the names of `fit` fill the templates of a fitting set after the first; `agreement` of
    those of `validation` and `test` fill each template of agreement, round robin.
    """

    fit: int | None = None
    few: int | None = None
    agreement: int | None = None
    validation: int | None = None
    test: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for key in NAME_COUNTS:
            require(Annotated[int, Gt(0)] | None, getattr(self, key), f"names.{key}")

    @classmethod
    def from_config(cls, names: Any, seed: int = 0) -> NameDraw:
        """Build from the setting `names`; missing keys are as in `NAME_COUNTS`, None takes all."""
        if names is None:
            return cls(seed=seed)
        if not isinstance(names, Mapping):
            raise UserError(f"names={names!r}: write names={{test: 24}}, or null for all")
        for key in names:
            require_known("names setting", key, NAME_COUNTS)
        return cls(**{**NAME_COUNTS, **names}, seed=seed)

    def of(self, split: Split) -> int | None:
        """The number of names of a split; None for all."""
        count: int | None = getattr(self, split)
        return count

    def draw(self, axis: Axis) -> Axis:
        """The axis with the drawn names, in order; from equal lists the same places."""

        def drawn(group: Group, split: Split) -> Sequence[str]:
            names, count = group.names[split], self.of(split)
            if count is None or not names:
                return names
            lengths = {len(own) for g in axis.groups.values() if (own := g.names.get(split))}
            apart = [group.name] if len(lengths) > 1 else []
            order = generator(self.seed, "names", axis.name, split, *apart).permutation(len(names))
            return [names[i] for i in sorted(order[: min(count, *lengths)])]

        return axis.with_names(drawn)

    def thin(self, data: CounterfactualSet, axis: Axis) -> CounterfactualSet:
        """A fitting set whose templates after the first few keep only `few` names.

        Templates that are not crossed with the drawn names, such as those of a file, stay whole.
        """
        count = min((n for n in (self.fit, self.few) if n is not None), default=None)
        many, few = (
            {group: draw.draw(axis).groups[group].names.get("fit") for group in data.groups}
            for draw in (self, replace(self, fit=count))
        )
        kept = {name for names in few.values() for name in names or ()}

        def thinned(sample: Sample) -> Sample:
            if {g: tuple(v.name for v in sample.of(g)) for g in data.groups} != many:
                return sample
            return replace(sample, variations=tuple(v for v in sample.variations if v.name in kept))

        whole, rest = data.samples[:FULLY_CROSSED], data.samples[FULLY_CROSSED:]
        return replace(data, samples=(*whole, *map(thinned, rest)))


def first_names(axis: Axis, count: int) -> Axis:
    """The axis with the first names of every list."""
    return axis.with_names(lambda group, split: group.names[split][:count])


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
    return _subset(data, lambda _, size: first_drawn(size, most, seed, "names"))


def few_of(data: CounterfactualSet, share: float, seed: int) -> CounterfactualSet:
    """The set with a share of its variations: fewer in each sample, then fewer samples.

    Two of each group stay in a sample, as their differences tell how much people vary.
    """
    wanted = share * data.widest
    most = max(round(wanted), LEAST_VARIATIONS)
    few = few_variations(data, most, seed)
    if round(wanted) >= LEAST_VARIATIONS:
        return few
    return few_prompts(few, math.ceil(wanted / few.widest * len(few.samples)), seed)


def round_robin(data: CounterfactualSet, most: int) -> CounterfactualSet:
    """The set with at most `most` pairs of variations in each sample, other ones in the next."""
    return _subset(
        data,
        lambda number, size: sorted((number * most + k) % size for k in range(min(most, size))),
    )


def _subset(data: CounterfactualSet, kept: Callable[[int, int], list[int]]) -> CounterfactualSet:
    """The variations at the places `kept(number of the sample, its variations per group)`."""
    samples = []
    for number, sample in enumerate(data.samples):
        sides = [sample.of(group) for group in data.groups]
        places = kept(number, len(sides[0]))
        variations = tuple(side[i] for side in sides for i in places)
        samples.append(replace(sample, variations=variations))
    return replace(data, samples=tuple(samples))


def few_prompts(data: CounterfactualSet, most: int, seed: int) -> CounterfactualSet:
    """The set with at most `most` of its samples."""
    kept = first_drawn(len(data.samples), most, seed, "prompts", data.name)
    return replace(data, samples=tuple(data.samples[i] for i in kept))


def few_texts(texts: Sequence[str], most: int, seed: int) -> tuple[str, ...]:
    """At most `most` of the texts."""
    return tuple(texts[i] for i in first_drawn(len(texts), most, seed, "texts"))
