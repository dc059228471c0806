"""Splits that cannot leak: checks of overlap, and the user's prompts in three parts.

CounterGen, section 3.4: test data "far from" training data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import SPLITS, Split
from countergen_edit.data.axis_config import OWN
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation

TURNS: tuple[Split, ...] = ("fit", "test", "fit", "validation", "test", "fit")
"""Splits of successive clusters of the user's prompts, the largest cluster first."""
LEAST = 2 * len(TURNS)
"""Minimum number of clusters: six to fit, two to choose, four to test."""
NEAR = 0.8
"""Jaccard index of the words of two templates from which they are nearly the same."""
ROWS = 512
"""Templates that are compared with all others at once, which bounds the memory."""


def check_leakage(fit: Sequence[CounterfactualSet], test: Sequence[CounterfactualSet]) -> None:
    """Refuse test sets that share a data set, template, prompt or name with the fitting sets.

    Templates and prompts are compared without regard to case and spacing. A name of one set counts
    as shared wherever it is a word of a prompt of the other.

    Raises:
        UserError: something is shared.
    """
    for fitted in fit:
        for tested in test:
            for kind, culprit in _shared(fitted, tested):
                raise UserError(
                    f"{kind} {culprit!r} is in fitting set {fitted.name!r} and in test set "
                    f"{tested.name!r}: figures would be measured on what was fitted; "
                    "take it out of one of them"
                )


def without_overlap(
    fitted: CounterfactualSet, test: Sequence[CounterfactualSet]
) -> CounterfactualSet | None:
    """A fitting set without the templates and names of test sets; None if nothing is left.

    Paired variations stay or go together.
    """
    templates = {_plain(template) for data in test for template in data.templates}
    words = {word for data in test for text in data.texts for word in _words(text)}
    prompts = {_plain(text) for data in test for text in data.texts}
    names = {word for data in test for name in data.names for word in _words(name)}

    def is_new(variation: Variation) -> bool:
        own = _words(variation.name or "")
        known = (bool(own) and own <= words) or _plain(variation.text) in prompts
        return not known and names.isdisjoint(_words(variation.text))

    samples = []
    for sample in fitted.samples:
        pairs = zip(*(sample.of(group) for group in fitted.groups), strict=True)
        kept = [pair for pair in pairs if all(map(is_new, pair))]
        if kept and _plain(sample.template) not in templates:
            sides = zip(*kept, strict=True)
            samples.append(replace(sample, variations=tuple(v for side in sides for v in side)))
    return replace(fitted, samples=tuple(samples)) if samples else None


def _shared(a: CounterfactualSet, b: CounterfactualSet) -> Iterator[tuple[str, str]]:
    if a.name == b.name:
        yield "data set", a.name
    templates = {_plain(template) for template in b.templates}
    yield from (("template", t) for t in a.templates if _plain(t) in templates)
    prompts = {_plain(text) for text in b.texts}
    yield from (("prompt", text) for text in a.texts if _plain(text) in prompts)
    for one, other in ((a, b), (b, a)):
        words = {word for text in other.texts for word in _words(text)}
        yield from (("name", n) for n in one.names if n in other.names or _words(n) <= words)


def split_prompts(
    sets: Sequence[CounterfactualSet], seed: int
) -> dict[Split, tuple[CounterfactualSet, ...]]:
    """The user's prompts by split: half to fit on, a sixth to choose by, a third to test on.

    Prompts that share a name, a text, a content or nearly a template stay in one split. Sets are
    named SET_SPLIT; a set may lack a split.
    """
    places = [(i, sample) for i, data in enumerate(sets) for sample in data.samples]
    samples = [sample for _, sample in places]
    clusters = _clusters(samples)
    sizes = Counter(clusters)
    if len(sizes) < LEAST:
        names = " and ".join(dict.fromkeys(data.name for data in sets))
        raise UserError(
            f"data.fit={OWN}: {names} has {len(sizes)} groups of prompts that share no name, text "
            f"or template ({len(samples)} prompts); {LEAST} are needed. Add prompts, or leave "
            "data.fit out, which fits on the axis's own data"
        )
    drawn = generator(seed, "own parts").permutation(len(sizes))
    order = sorted(sizes, key=lambda c: (-sizes[c], drawn[c]))
    split_of = {c: TURNS[i % len(TURNS)] for i, c in enumerate(order)}
    parts: dict[Split, tuple[CounterfactualSet, ...]] = {}
    for split in SPLITS:
        own: dict[int, list[Sample]] = {}
        for (i, sample), c in zip(places, clusters, strict=True):
            if split_of[c] == split:
                own.setdefault(i, []).append(sample)
        parts[split] = tuple(
            replace(sets[i], name=f"{sets[i].name}_{split}", samples=tuple(samples))
            for i, samples in own.items()
        )
    return parts


def _clusters(samples: Sequence[Sample]) -> list[int]:
    """The cluster of each sample: connected components of samples that share something."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components  # late: help does without

    keys: dict[tuple[str, str], int] = {}
    names = {word for sample in samples for word in _names(sample)}
    links = [
        (i, len(samples) + keys.setdefault(key, len(keys)))
        for i, sample in enumerate(samples)
        for key in _keys(sample, names)
    ]
    links += _near(samples)
    rows, columns = np.array(links).T
    size = len(samples) + len(keys)
    graph = coo_array((np.ones(len(links), bool), (rows, columns)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1][: len(samples)]
    return [int(label) for label in np.unique(labels, return_inverse=True)[1]]


def _keys(sample: Sample, names: set[str]) -> Iterator[tuple[str, str]]:
    """The templates, contents, prompts and names that two splits may not share."""
    yield "template", _plain(sample.template)
    if sample.content is not None:
        yield "content", _plain(sample.content)
    for variation in sample.variations:
        yield "prompt", _plain(variation.text)
        yield from (("name", word) for word in _words(variation.text) & names)


def _near(samples: Sequence[Sample]) -> Iterator[tuple[int, int]]:
    """Pairs of samples with nearly the same template."""
    from scipy.sparse import csr_array

    words = [_words(sample.template.casefold()) for sample in samples]
    index = {word: i for i, word in enumerate(sorted(set().union(*words)))}
    columns = [index[word] for own in words for word in sorted(own)]
    counts = np.array([len(own) for own in words])
    ends = np.concatenate([[0], np.cumsum(counts)])
    holds = csr_array((np.ones(len(columns)), columns, ends), shape=(len(words), len(index)))
    for first in range(0, len(words), ROWS):
        both = (holds[first : first + ROWS] @ holds.T).tocoo()
        a, b = both.coords[0] + first, both.coords[1]
        near = both.data >= NEAR * (counts[a] + counts[b] - both.data)
        yield from ((int(i), int(j)) for i, j in zip(a[near], b[near], strict=True) if i < j)


def _names(sample: Sample) -> set[str]:
    return {word for v in sample.variations for word in _words(v.name or "")}


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
