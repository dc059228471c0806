"""Few of many: sets with few names, few of some texts, for measurements that need not be exact.

Comes in: a set or texts, and how many to keep. Goes out: the same with no more than that, in their
order. Nested: under one seed what few keep is kept by more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from countergen_edit.core.seeds import generator
from countergen_edit.data.counterfactual import CounterfactualSet, Sample


def first_drawn(count: int, most: int, seed: int, *unit: object) -> list[int]:
    """At most `most` of `count` indices: the first of one random order, sorted.

    >>> set(first_drawn(9, 3, 0)) <= set(first_drawn(9, 5, 0))
    True
    """
    order = generator(seed, "few", *unit, count).permutation(count)
    return sorted(int(i) for i in order[:most])


def few_variations(data: CounterfactualSet, most: int, seed: int) -> CounterfactualSet:
    """The set with at most so many variations a group in each sample.

    Those at the same place in their groups stay or go together, and samples of equally many
    variations, which have the same names, keep the same.
    """
    if data.widest <= most:
        return data

    def few(sample: Sample) -> Sample:
        sides = [sample.of(group) for group in data.groups]
        kept = first_drawn(len(sides[0]), most, seed, "names")
        return replace(sample, variations=tuple(side[i] for side in sides for i in kept))

    return replace(data, samples=tuple(few(sample) for sample in data.samples))


def round_robin(data: CounterfactualSet, most: int) -> CounterfactualSet:
    """The set with at most so many variations a group in each sample, other ones in the next.

    Those at the same place in their groups stay or go together. Where templates differ more than
    people, as in grammar, many templates of few people each say more than few templates of many.
    """

    def few(number: int, sample: Sample) -> Sample:
        sides = [sample.of(group) for group in data.groups]
        if max(map(len, sides)) <= most:
            return sample
        kept = [
            sorted({(number * most + k) % len(side) for k in range(min(most, len(side)))})
            for side in sides
        ]
        chosen = [side[i] for side, places in zip(sides, kept, strict=True) for i in places]
        return replace(sample, variations=tuple(chosen))

    return replace(data, samples=tuple(few(i, sample) for i, sample in enumerate(data.samples)))


def few_prompts(data: CounterfactualSet, most: int, seed: int) -> CounterfactualSet:
    """The set with at most so many of its samples."""
    kept = first_drawn(len(data.samples), most, seed, "prompts", data.name)
    return replace(data, samples=tuple(data.samples[i] for i in kept))


def few_texts(texts: Sequence[str], most: int, seed: int) -> tuple[str, ...]:
    """At most so many of the texts."""
    return tuple(texts[i] for i in first_drawn(len(texts), most, seed, "texts"))
