"""Sets that a model cannot be asked, as it was never taught their words.

Comes in: a set, and what a model lacks to be asked it. Goes out: the two as one value; and of a
text the words that it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from countergen_edit.data.counterfactual import CounterfactualSet, Sample

MOST = 3
"""Words that a warning names."""
_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters.

    >>> words_of("She's late.")
    ['she', 's', 'late']
    """
    return [word.casefold() for word in _WORD.findall(text)]


def unknown_words(words: Collection[str], text: str) -> list[str]:
    """The words of a text that are not among those."""
    return [word for word in words_of(text) if word not in words]


@dataclass(frozen=True)
class OutOfVocabulary:
    """A set in words that a model never met."""

    data: CounterfactualSet
    share: float
    """Of the prompts with outputs of the group with fewest, those in words that it met."""
    words: tuple[str, ...]
    """Words that it did not meet, those that tell the groups apart first."""


def vocabulary_warnings(
    sets: Iterable[CounterfactualSet], words: Collection[str], model: str
) -> Iterator[str]:
    """One line for each set with prompts or outputs outside a model's vocabulary.

    Args:
        sets: that are measured all the same.
        words: the vocabulary, in small letters.
        model: its name.
    """
    for data in sets:
        outside = [
            found
            for sample in data.samples
            if (found := [w for text in _texts(sample) for w in unknown_words(words, text)])
        ]
        if outside:
            first = [*dict.fromkeys(found[0] for found in outside)][:MOST]
            named = ", ".join(map(repr, first))
            yield (
                f"{len(outside)} of {len(data.samples)} prompts of {data.name} contain words "
                f"outside the vocabulary of {model} ({named}): their figures mean nothing."
            )


def _texts(sample: Sample) -> list[str]:
    return [*(v.text for v in sample.variations), *sample.outputs]
