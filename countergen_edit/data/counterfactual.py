"""Counterfactual sets: samples with one or more variations per group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import DoesNotFitError


@dataclass(frozen=True)
class Variation:
    """A prompt as one group would have it."""

    group: str
    text: str
    name: str | None = None
    """The name in the text that shows the group; None where other words do."""
    start: int = 0
    """Character at which the prompt first shows the group; what stands before is shared."""
    mention: str | None = None
    """The noun phrase that stands for a person without a name, before its slots are filled."""

    @property
    def person(self) -> str | None:
        """The person in the text: the name, or the noun phrase in its place."""
        return self.name or self.mention


@dataclass(frozen=True)
class Sample:
    """A prompt with its variations and the continuations whose probabilities are compared."""

    template: str
    """The template of the prompt, which must not be in both fitting and test data."""
    outputs: tuple[str, ...]
    variations: tuple[Variation, ...]
    content: str | None = None
    """Samples of one content are paraphrases of each other; None without paraphrases."""
    frame: str | None = None
    """The template without its content, where templates are crossed with contents."""

    def of(self, group: str) -> tuple[Variation, ...]:
        return tuple(v for v in self.variations if v.group == group)


@dataclass(frozen=True)
class CounterfactualSet:
    """Samples on which two groups of an axis, or more, are compared (CounterGen, section 2.1).

    `UserError` if it is empty, its groups differ in size, or two of their texts are identical.
    """

    name: str
    axis: str
    groups: tuple[str, ...]
    samples: tuple[Sample, ...]
    sum_outputs: bool = False
    """Whether P is that of any of a prompt's outputs, instead of each."""

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
                if same := {v.text for v in of_a} & {v.text for v in of_b}:
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
        samples = (replace(s, variations=(*s.of(a), *s.of(b))) for s in self.samples)
        return replace(self, groups=(a, b), samples=tuple(samples))

    @property
    def templates(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(sample.template for sample in self.samples))

    @property
    def texts(self) -> list[str]:
        """The prompts of all samples and groups."""
        return [v.text for sample in self.samples for v in sample.variations]

    @property
    def widest(self) -> int:
        """The largest number of variations that a group has in a sample."""
        return max(len(sample.of(self.groups[0])) for sample in self.samples)

    @cached_property
    def names(self) -> tuple[str, ...]:
        names = (v.name for sample in self.samples for v in sample.variations if v.name)
        return tuple(dict.fromkeys(names))

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(words_of("\n".join(self.texts)))

    @cached_property
    def plain_texts(self) -> frozenset[str]:
        """The prompts without regard to case and spacing."""
        return frozenset(map(normalised, self.texts))


Sets = tuple[CounterfactualSet, ...]


def words_of(text: str) -> set[str]:
    """The words of a text."""
    return set(re.findall(r"\w+", text))


def normalised(text: str) -> str:
    """A text without regard to case and spacing."""
    return " ".join(text.casefold().split())


def joined_sets(sets: Sequence[CounterfactualSet]) -> CounterfactualSet | None:
    """The samples of all sets for the groups of all; None if none. They share a first group."""
    if len(sets) == 1:
        return sets[0]
    first = sets[0].groups[0]
    by_prompt = [{(s.template, s.outputs): s for s in data.samples} for data in sets]
    samples = []
    for sample in sets[0].samples:
        prompt = sample.template, sample.outputs
        same = [samples_of[prompt] for samples_of in by_prompt if prompt in samples_of]
        texts = [v.text for v in sample.of(first)]
        if len(same) == len(sets) and all([v.text for v in s.of(first)] == texts for s in same):
            seconds = [v for s, d in zip(same, sets, strict=True) for v in s.of(d.groups[1])]
            variations = (*sample.of(first), *seconds)
            if len({v.text for v in variations}) == len(variations):
                samples.append(replace(sample, variations=variations))
    groups = (first, *(data.groups[1] for data in sets))
    return replace(sets[0], groups=groups, samples=tuple(samples)) if samples else None
