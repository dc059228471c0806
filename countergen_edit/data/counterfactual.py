"""Counterfactual sets: the one shape in which evaluation and fitting data travel.

Comes in: samples with one or more variations per group. Goes out: a frozen `CounterfactualSet`.
Refused: an empty set, groups of unequal size, a perturbation that changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from countergen_edit.core.errors import UserError
from countergen_edit.data.forms import DoesNotFitError


@dataclass(frozen=True)
class Variation:
    """A prompt as one group would have it."""

    group: str
    text: str
    name: str | None = None
    """The name in the text, where the group shows in a name; None where it shows in other words."""
    start: int = 0
    """Character at which the prompt first shows the group; what stands before is shared."""


@dataclass(frozen=True)
class Sample:
    """A prompt with its variations and the continuations whose probabilities are compared."""

    template: str
    """The template the prompt was made from: what must not occur in both fitting and test data."""
    outputs: tuple[str, ...]
    variations: tuple[Variation, ...]
    content: str | None = None
    """The content: samples of one content are paraphrases of each other. None where
    nothing else words it."""

    def of(self, group: str) -> tuple[Variation, ...]:
        return tuple(v for v in self.variations if v.group == group)


@dataclass(frozen=True)
class CounterfactualSet:
    """Samples on which two groups of an axis, or more, are compared (CounterGen, section 2.1).

    Raises:
        UserError: the set is empty, a sample's groups differ in size, or a pair of variations is
            identical, which would report "no bias" for a comparison that was never made.
    """

    name: str
    axis: str
    groups: tuple[str, ...]
    samples: tuple[Sample, ...]

    def __post_init__(self) -> None:
        if not self.samples:
            raise UserError(f"set {self.name!r} is empty: it has no samples to compare")
        for sample in self.samples:
            by_group = {group: sample.of(group) for group in self.groups}
            for a, b in combinations(self.groups, 2):
                of_a, of_b = by_group[a], by_group[b]
                if len(of_a) != len(of_b) or not of_a:
                    raise UserError(
                        f"set {self.name!r}, {sample.template!r}: {len(of_a)} variation(s) for "
                        f"{a!r} but {len(of_b)} for {b!r}; give both groups the same number, at "
                        "least one"
                    )
                same = {v.text for v in of_a} & {v.text for v in of_b}
                if same:
                    raise DoesNotFitError(
                        f"set {self.name!r}: the perturbation changes nothing in {min(same)!r}; "
                        f"the texts for {a!r} and {b!r} must differ"
                    )

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Every two groups, in their order."""
        return tuple(combinations(self.groups, 2))

    def between(self, a: str, b: str) -> CounterfactualSet:
        """The same samples for two of its groups."""
        if self.groups == (a, b):
            return self
        samples = (
            replace(sample, variations=(*sample.of(a), *sample.of(b))) for sample in self.samples
        )
        return replace(self, groups=(a, b), samples=tuple(samples))

    @property
    def templates(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(sample.template for sample in self.samples))

    @property
    def widest(self) -> int:
        """How many variations a group has in the sample that has most."""
        return max(len(sample.of(self.groups[0])) for sample in self.samples)

    @cached_property
    def names(self) -> tuple[str, ...]:
        names = (v.name for sample in self.samples for v in sample.variations if v.name)
        return tuple(dict.fromkeys(names))


def joined(sets: Sequence[CounterfactualSet]) -> CounterfactualSet | None:
    """One set for all groups of sets that share their first: what is asked of every group.

    Args:
        sets: of the same templates for the first group and one other each.

    Returns:
        The samples that every set has; None where they share none.
    """
    if len(sets) == 1:
        return sets[0]
    first = sets[0].groups[0]
    every = [{(s.template, s.outputs): s for s in data.samples} for data in sets]
    samples = []
    for sample in sets[0].samples:
        own = [others.get((sample.template, sample.outputs)) for others in every]
        known = [other for other in own if other is not None]
        own_texts = [v.text for v in sample.of(first)]
        alike = all([v.text for v in other.of(first)] == own_texts for other in known)
        if alike and len(known) == len(sets):
            others = (v for o, d in zip(known, sets, strict=True) for v in o.of(d.groups[1]))
            samples.append(replace(sample, variations=(*sample.of(first), *others)))
    groups = (first, *(data.groups[1] for data in sets))
    kept = [s for s in samples if len({v.text for v in s.variations}) == len(s.variations)]
    return replace(sets[0], groups=groups, samples=tuple(kept)) if kept else None
