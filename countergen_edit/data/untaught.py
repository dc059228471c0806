"""Sets that a model cannot be asked, as it was never taught their words.

Comes in: a set, and what a model lacks to be asked it. Goes out: the two as one value; and of a
text the words that it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from countergen_edit.data.counterfactual import CounterfactualSet

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
class Untaught:
    """A set in words that a model never met."""

    data: CounterfactualSet
    share: float
    """Of the prompts with outputs of the group with fewest, those in words that it met."""
    words: tuple[str, ...]
    """Words that it did not meet, those that tell the groups apart first."""
