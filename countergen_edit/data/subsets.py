"""Parts of data by a seed: drawn names, subsets of a set, and splits that share nothing.

Under one seed, a smaller subset is part of a larger one. CounterGen, section 3.4: test data "far
from" training data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, cycle
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.core.typed import require, require_keys
from countergen_edit.data.axis import NAME_COUNTS, OWN, SPLITS, Axis, Group, Split
from countergen_edit.data.counterfactual import (
    CounterfactualSet,
    Sample,
    Sets,
    Variation,
    normalised,
    words_of,
)

LEAST_VARIATIONS = 2
"""Of each group in a sample: their differences tell how much people vary."""
FULLY_CROSSED = 2
"""Number of templates of a fitting set that are crossed with all drawn names."""
_TURNS: tuple[Split, ...] = ("fit", "test", "fit", "validation", "test", "fit")
"""Splits of successive clusters of the user's prompts, the largest cluster first."""
LEAST_CLUSTERS = 2 * len(_TURNS)
"""Minimum number of clusters: six to fit, two to choose, four to test."""
_NEAR = 0.8
"""Jaccard index of the words of two templates from which they are nearly the same."""


@dataclass(frozen=True)
class NameDraw:
    """How many names per group are drawn.

    `few` of the names of `fit` fill the templates of a fitting set after the first; `agreement` of
    those of `validation` and `test` fill each template of agreement, round robin.
    """

    counts: Mapping[str, int | None] = field(default_factory=dict)
    """By split, of `few` and of `agreement`; None takes all."""
    seed: int = 0

    @classmethod
    def from_config(cls, names: Any, seed: int = 0) -> NameDraw:
        """Build from the setting `names`; missing keys are as in `NAME_COUNTS`, None takes all."""
        if names is None:
            return cls(seed=seed)
        require(Mapping[str, Any], names, "names")
        count = Annotated[int, Gt(0)] | None
        require_keys(names, dict.fromkeys(NAME_COUNTS, count), "names setting", "names.")
        return cls({**NAME_COUNTS, **names}, seed)

    def draw(self, axis: Axis) -> Axis:
        """The axis with the drawn names, in order; from equal lists the same places."""

        def drawn(group: Group, split: Split) -> Sequence[str]:
            names, count = group.names[split], self.counts.get(split)
            if count is None or not names:
                return names
            lengths = {len(g.names[split]) for g in axis.groups.values() if g.names.get(split)}
            apart = [group.name] if len(lengths) > 1 else []
            order = generator(self.seed, "names", axis.name, split, *apart).permutation(len(names))
            return [names[i] for i in sorted(order[: min(count, *lengths)])]

        return axis.with_names(drawn)

    def thin(self, data: CounterfactualSet, axis: Axis) -> CounterfactualSet:
        """A fitting set whose templates after the first few keep only `few` names.

        Templates that are not crossed with the drawn names, such as those of a file, stay whole.
        """
        limits = (self.counts.get("fit"), self.counts.get("few"))
        count = min((n for n in limits if n is not None), default=None)
        many, few = (
            {group: draw.draw(axis).groups[group].names.get("fit") for group in data.groups}
            for draw in (self, NameDraw({"fit": count}, self.seed))
        )
        few_names = {name for names in few.values() for name in names or ()}
        samples = [*data.samples]
        for i, sample in enumerate(samples[FULLY_CROSSED:], FULLY_CROSSED):
            if {g: tuple(v.name for v in sample.of(g)) for g in data.groups} == many:
                variations = tuple(v for v in sample.variations if v.name in few_names)
                samples[i] = replace(sample, variations=variations)
        return replace(data, samples=tuple(samples))


def first_drawn(count: int, most: int, seed: int, *unit: object) -> list[int]:
    """At most `most` of `count` indices: the first of one random order, sorted.

    >>> set(first_drawn(9, 3, 0)) <= set(first_drawn(9, 5, 0))
    True
    """
    order = generator(seed, "few", *unit, count).permutation(count)
    return sorted(int(i) for i in order[:most])


def few_variations(data: CounterfactualSet, most: int, seed: int) -> CounterfactualSet:
    """The set with at most `most` variations per group in each sample; pairs stay together."""
    if data.widest <= most:
        return data
    return _subset(data, lambda _, size: first_drawn(size, most, seed, "names"))


def few_of(data: CounterfactualSet, share: float, seed: int) -> CounterfactualSet:
    """The set with a share of its variations: fewer in each sample, then fewer samples."""
    size = share * data.widest
    few = few_variations(data, max(round(size), LEAST_VARIATIONS), seed)
    if round(size) >= LEAST_VARIATIONS:
        return few
    return few_prompts(few, math.ceil(size / few.widest * len(few.samples)), seed)


def round_robin(data: CounterfactualSet, most: int) -> CounterfactualSet:
    """The set with at most `most` pairs of variations in each sample, other ones in the next."""
    return _subset(
        data,
        lambda number, size: sorted((number * most + k) % size for k in range(min(most, size))),
    )


def _subset(data: CounterfactualSet, choose: Callable[[int, int], list[int]]) -> CounterfactualSet:
    """The variations at the places `choose(number of the sample, its variations per group)`."""
    samples = []
    for number, sample in enumerate(data.samples):
        sides = [sample.of(group) for group in data.groups]
        places = choose(number, len(sides[0]))
        variations = tuple(side[i] for side in sides for i in places)
        samples.append(replace(sample, variations=variations))
    return replace(data, samples=tuple(samples))


def few_prompts(data: CounterfactualSet, most: int, seed: int) -> CounterfactualSet:
    """The set with at most `most` of its samples."""
    drawn = first_drawn(len(data.samples), most, seed, "prompts", data.name)
    return replace(data, samples=tuple(data.samples[i] for i in drawn))


def few_texts(texts: Sequence[str], most: int, seed: int) -> tuple[str, ...]:
    """At most `most` of the texts."""
    return tuple(texts[i] for i in first_drawn(len(texts), most, seed, "texts"))


def check_leakage(
    fit: Sequence[CounterfactualSet], test: Sequence[CounterfactualSet], axis: Axis | None = None
) -> None:
    """Refuse test sets that share a data set, template, content, prompt or name with fitting sets.

    Case and spacing do not count. A name is shared wherever it is a word of a prompt of the other.
    The error names other names of `axis`.
    """
    for fitted in fit:
        for tested in test:
            for kind, culprit in _shared(fitted, tested):
                free = axis.other_names(culprit, tested.names) if axis and kind == "name" else ()
                instead = f", or use another name, such as {', '.join(free)}" if free else ""
                raise UserError(
                    f"{kind} {culprit!r} is in fitting set {fitted.name!r} and in test set "
                    f"{tested.name!r}: figures would be measured on what was fitted; "
                    f"take it out of one of them{instead}, or fit nothing (eraser=none)"
                )


def without_overlap(
    fitted: CounterfactualSet, test: Sequence[CounterfactualSet]
) -> CounterfactualSet | None:
    """A fitting set without what test sets have, pairs kept together; None if nothing is left."""
    templates = {normalised(template) for data in test for template in data.templates}
    words = frozenset[str]().union(*(data.words for data in test))
    prompts = frozenset[str]().union(*(data.plain_texts for data in test))
    names = {word for data in test for name in data.names for word in words_of(name)}

    def is_new(variation: Variation) -> bool:
        name = words_of(variation.name or "")
        is_shared = (bool(name) and name <= words) or normalised(variation.text) in prompts
        return not is_shared and names.isdisjoint(words_of(variation.text))

    samples = []
    for sample in fitted.samples:
        pairs = zip(*(sample.of(group) for group in fitted.groups), strict=True)
        new = [pair for pair in pairs if all(map(is_new, pair))]
        if new and normalised(sample.template) not in templates:
            sides = zip(*new, strict=True)
            samples.append(replace(sample, variations=tuple(chain.from_iterable(sides))))
    return replace(fitted, samples=tuple(samples)) if samples else None


def _shared(a: CounterfactualSet, b: CounterfactualSet) -> Iterator[tuple[str, str]]:
    if a.name == b.name:
        yield "data set", a.name
    templates = {normalised(template) for template in b.templates}
    yield from (("template", t) for t in a.templates if normalised(t) in templates)
    for kind in ("content", "frame"):
        first, second = ({getattr(s, kind) for s in d.samples if s.frame} for d in (a, b))
        yield from ((kind, text) for text in sorted(first & second))
    if a.plain_texts & b.plain_texts:
        yield from (("prompt", text) for text in a.texts if normalised(text) in b.plain_texts)
    for one, other in ((a, b), (b, a)):
        names = {*other.names}
        yield from (("name", n) for n in one.names if n in names or words_of(n) <= other.words)


def split_prompts(sets: Sequence[CounterfactualSet], seed: int) -> dict[Split, Sets]:
    """The user's prompts by split: half to fit on, a sixth to choose by, a third to test on.

    Prompts that share a name, a text, a content or nearly a template stay in one split. Sets are
    named SET_SPLIT; a set may lack a split.
    """
    places = [(i, sample) for i, data in enumerate(sets) for sample in data.samples]
    samples = [sample for _, sample in places]
    clusters = _clusters(samples)
    sizes = Counter(clusters)
    if len(sizes) < LEAST_CLUSTERS:
        names = " and ".join(dict.fromkeys(data.name for data in sets))
        raise UserError(
            f"data.fit={OWN}: {names} has {len(sizes)} groups of prompts that share no name, text "
            f"or template ({len(samples)} prompts); {LEAST_CLUSTERS} are needed. Add prompts, or "
            "leave data.fit out, which fits on the axis's own data"
        )
    drawn = generator(seed, "own parts").permutation(len(sizes))
    order = sorted(sizes, key=lambda c: (-sizes[c], drawn[c]))
    split_of = dict(zip(order, cycle(_TURNS), strict=False))
    parts: dict[Split, dict[int, list[Sample]]] = {split: {} for split in SPLITS}
    for (i, sample), c in zip(places, clusters, strict=True):
        parts[split_of[c]].setdefault(i, []).append(sample)
    return {
        split: tuple(
            replace(sets[i], name=f"{sets[i].name}_{split}", samples=tuple(samples))
            for i, samples in parts[split].items()
        )
        for split in SPLITS
    }


def _clusters(samples: Sequence[Sample]) -> list[int]:
    """The cluster of each sample: connected components of samples that share something."""
    from scipy.sparse import coo_array  # late: help does without
    from scipy.sparse.csgraph import connected_components
    from sklearn.feature_extraction.text import CountVectorizer

    names = {word for s in samples for v in s.variations for word in words_of(v.name or "")}
    incidence = CountVectorizer(analyzer=list, binary=True).fit_transform
    shared = incidence([[*_keys(sample, names)] for sample in samples])
    words = incidence([[*words_of(s.template.casefold())] or [""] for s in samples])
    common = (words @ words.T).tocoo()
    counts = np.asarray(words.sum(axis=1)).ravel()
    near = common.data >= _NEAR * (counts[common.row] + counts[common.col] - common.data)
    alike = coo_array((near.astype(float), (common.row, common.col)), shape=common.shape)
    graph = coo_array(shared @ shared.T) + alike
    return [int(label) for label in connected_components(graph, directed=False)[1]]


def _keys(sample: Sample, names: set[str]) -> Iterator[tuple[str, str]]:
    """The templates, contents, prompts and names that two splits may not share."""
    yield "template", normalised(sample.template)
    if sample.content is not None:
        yield "content", normalised(sample.content)
    for variation in sample.variations:
        yield "prompt", normalised(variation.text)
        yield from (("name", word) for word in words_of(variation.text) & names)
