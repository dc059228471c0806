"""Which people of an axis a task asks about: a draw of names by a seed.

Comes in: an axis, and how many names of a group each split takes. Goes out: the axis with those
names, in the order of its lists; the same for every set of a split, whatever other sets there are.
Where an axis has fewer, all are taken. Refused: an unknown key, a number below one.

Fitting sets cross many names with their first templates and few names with the others: names and
templates both have lives of their own, and all pairs of many of each would cost too much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import SPLITS, Axis, Group, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample

DRAWN: Mapping[str, int] = {
    "fit": 40,
    "few": 10,
    "agreement": 8,
    "validation": 12,
    "test": 24,
}
"""How many names of each group are drawn unless given: enough to tell a group from its people."""
MANY_PARAPHRASES = 2
"""So many templates of a fitting set are crossed with all drawn names."""


@dataclass(frozen=True)
class People:
    """How many names of each group are drawn; None takes all.

    Raises:
        UserError: a number is below one.
    """

    fit: int | None = None
    few: int | None = None
    """Of those of `fit`, the names of the other templates of a fitting set."""
    agreement: int | None = None
    """Of those of `validation` and of `test`, the names of each template of agreement, in turn."""
    validation: int | None = None
    test: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for key in DRAWN:
            count = getattr(self, key)
            if count is not None and (
                isinstance(count, bool) or not isinstance(count, int) or count < 1
            ):
                raise UserError(
                    f"names.{key}={count!r}: write how many names of a group, or null for all"
                )

    @classmethod
    def from_config(cls, names: Any, seed: int = 0) -> People:
        """As a command's `names` says; what it leaves out is as in `DRAWN`, None takes all.

        Raises:
            UserError: a key is unknown, or a number below one.
        """
        if names is None:
            return cls(seed=seed)
        if not isinstance(names, Mapping):
            raise UserError(f"names={names!r}: write names={{test: 24}}, or null for all")
        for key in names:
            if key not in DRAWN:
                raise unknown("names setting", key, DRAWN)
        return cls(**{**DRAWN, **names}, seed=seed)

    def drawn(self, axis: Axis) -> Axis:
        """The axis with the names of each split that were drawn.

        Names at one place of lists of equal length stay at one place.
        """
        counts: dict[Split, int | None] = {s: getattr(self, s) for s in SPLITS}
        return _with_names(axis, {s: self._places(axis, s, k) for s, k in counts.items()})

    def thinned(self, data: CounterfactualSet, axis: Axis) -> CounterfactualSet:
        """A fitting set of which the templates after the first few keep few names.

        Templates that are not crossed with the drawn names, such as those of a file, stay whole.
        """
        many = self.drawn(axis).groups
        few = _with_names(axis, {"fit": self._places(axis, "fit", self._fewest)}).groups
        samples = tuple(
            sample if i < MANY_PARAPHRASES else _of_few(sample, data.groups, many, few)
            for i, sample in enumerate(data.samples)
        )
        return replace(data, samples=samples)

    @property
    def _fewest(self) -> int | None:
        counts = [count for count in (self.fit, self.few) if count is not None]
        return min(counts, default=None)

    def _places(self, axis: Axis, split: Split, count: int | None) -> dict[str, list[int]]:
        """Group → places of the drawn names in its list; fewer names are some of more names."""
        lengths = {
            g.name: len(names) for g in axis.groups.values() if (names := g.names.get(split))
        }
        if count is None:
            return {group: [*range(length)] for group, length in lengths.items()}
        alike = len(set(lengths.values())) == 1
        shortest = min(lengths.values(), default=0)
        places = {}
        for group, length in lengths.items():
            unit = ("names", axis.name, split) if alike else ("names", axis.name, split, group)
            order = generator(self.seed, *unit).permutation(length)
            places[group] = np.sort(order[: min(count, shortest)]).tolist()
        return places


def first_names(axis: Axis, count: int) -> Axis:
    """The axis with the first so many names of every list, whatever is drawn elsewhere."""
    splits: dict[Split, dict[str, list[int]]] = {
        split: {g.name: [*range(len(g.names.get(split, ())))][:count] for g in axis.groups.values()}
        for split in SPLITS
    }
    return _with_names(axis, splits)


def _with_names(axis: Axis, places: Mapping[Split, Mapping[str, list[int]]]) -> Axis:
    """The axis with those of its names that stand at given places."""
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


def _of_few(
    sample: Sample, compared: tuple[str, ...], many: Mapping[str, Group], few: Mapping[str, Group]
) -> Sample:
    crossed = all(
        tuple(v.name for v in sample.of(group)) == many[group].names.get("fit")
        for group in compared
    )
    if not crossed:
        return sample
    kept = {name for group in compared for name in few[group].names.get("fit", ())}
    return replace(sample, variations=tuple(v for v in sample.variations if v.name in kept))
