"""Prompts of the user's own in three parts: some to fit on, some to choose by, some to test on.

Comes in: sets made of the user's files, and a seed. Goes out: sets by split. Prompts that share a
person, a text or nearly a template, and paraphrases of each other, stay in one part, so that what
is tested on is far from what is fitted on. Refused: too few prompts that share nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import SPLITS, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample

OWN = "own"
"""What `data.fit` holds where erasers are fitted on a part of the user's prompts."""
TURNS: tuple[Split, ...] = ("fit", "test", "fit", "validation", "test", "fit")
"""Whose each bundle is, in turn, the largest first: half to fit, a sixth to choose by."""
LEAST = 2 * len(TURNS)
"""Fewest bundles: six to fit, two to choose, four to test."""
NEAR = 0.8
"""Templates are nearly the same that share so much of the words of both (Jaccard's index)."""
ROWS = 512
"""Templates that are held against all others at once, which bounds the memory."""


def parted(
    sets: Sequence[CounterfactualSet], seed: int
) -> dict[Split, tuple[CounterfactualSet, ...]]:
    """The sets in three parts, each called as its set and its split; a set may lack one.

    Raises:
        UserError: fewer than `LEAST` bundles of prompts share nothing with each other.
    """
    places = [(i, sample) for i, data in enumerate(sets) for sample in data.samples]
    bundle = _bundles([sample for _, sample in places])
    sizes = Counter(bundle)
    if len(sizes) < LEAST:
        raise UserError(_too_few(sets, sizes, [sample for _, sample in places], bundle))
    drawn = generator(seed, "own parts").permutation(len(sizes))
    order = sorted(sizes, key=lambda b: (-sizes[b], drawn[b]))
    split_of = {b: TURNS[i % len(TURNS)] for i, b in enumerate(order)}
    parts: dict[Split, tuple[CounterfactualSet, ...]] = {}
    for split in SPLITS:
        own: dict[int, list[Sample]] = {}
        for (i, sample), b in zip(places, bundle, strict=True):
            if split_of[b] == split:
                own.setdefault(i, []).append(sample)
        parts[split] = tuple(
            replace(sets[i], name=f"{sets[i].name}_{split}", samples=tuple(samples))
            for i, samples in own.items()
        )
    return parts


def _bundles(samples: Sequence[Sample]) -> list[int]:
    """Each sample's bundle, from 0: samples are in one that share what must not be torn apart."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components  # late: help does without

    keys: dict[tuple[str, str], int] = {}
    people = {word for sample in samples for word in _people(sample)}
    links = [
        (i, len(samples) + keys.setdefault(key, len(keys)))
        for i, sample in enumerate(samples)
        for key in _keys(sample, people)
    ]
    links += _near(samples)
    rows, columns = np.array(links).T
    size = len(samples) + len(keys)
    graph = coo_array((np.ones(len(links), bool), (rows, columns)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1][: len(samples)]
    return [int(label) for label in np.unique(labels, return_inverse=True)[1]]


def _keys(sample: Sample, people: set[str]) -> Iterator[tuple[str, str]]:
    """What no two parts may both have."""
    yield "paraphrase", _plain(sample.template)
    if sample.content is not None:
        yield "content", _plain(sample.content)
    for variation in sample.variations:
        yield "prompt", _plain(variation.text)
        yield from (("person", word) for word in _words(variation.text) & people)


def _near(samples: Sequence[Sample]) -> Iterator[tuple[int, int]]:
    """Pairs of samples with nearly the same template."""
    from scipy.sparse import csr_array

    said = [_words(sample.template.casefold()) for sample in samples]
    index = {word: i for i, word in enumerate(sorted(set().union(*said)))}
    columns = [index[word] for words in said for word in sorted(words)]
    counts = np.array([len(words) for words in said])
    ends = np.concatenate([[0], np.cumsum(counts)])
    holds = csr_array((np.ones(len(columns)), columns, ends), shape=(len(said), len(index)))
    for first in range(0, len(said), ROWS):
        both = (holds[first : first + ROWS] @ holds.T).tocoo()
        a, b = both.coords[0] + first, both.coords[1]
        near = both.data >= NEAR * (counts[a] + counts[b] - both.data)
        yield from ((int(i), int(j)) for i, j in zip(a[near], b[near], strict=True) if i < j)


def _people(sample: Sample) -> Iterator[str]:
    for variation in sample.variations:
        yield from _words(variation.name or "")


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _too_few(
    sets: Sequence[CounterfactualSet],
    sizes: Mapping[int, int],
    samples: Sequence[Sample],
    bundle: Sequence[int],
) -> str:
    names = " and ".join(dict.fromkeys(data.name for data in sets))
    count = f"{len(samples)} prompt{'' if len(samples) == 1 else 's'}"
    largest = max(sizes, key=lambda b: sizes[b])
    within = [sample for sample, b in zip(samples, bundle, strict=True) if b == largest]
    named = Counter(word for sample in within for word in dict.fromkeys(_people(sample)))
    [(person, often)] = named.most_common(1) or [("", 0)]
    found = count
    if len(sizes) < len(samples):
        found += f" that count as {len(sizes)}, as some share a person or nearly all of a template"
    if often > 1:
        found += f" ({person!r} is in {often})"
    return (
        f"data.fit={OWN}: {names} has {found}; {LEAST} are needed: half to fit on, the others to "
        "choose by and to test on. Add prompts, or leave data.fit out, which fits on the axis's own"
    )
