"""Which protected criteria a text names outright: a lexicon's pre-rating, and no judgement.

Comes in: a text. Goes out: criteria of `protected_criteria.yaml`, by whole words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from countergen_edit.core.reading import shipped_yaml

LEXICON = Path(__file__).with_name("protected_criteria.yaml")


@cache
def _lexicon() -> Mapping[str, re.Pattern[str]]:
    criteria: dict[str, list[str]] = shipped_yaml(LEXICON)
    return {criterion: _any_of(words) for criterion, words in criteria.items()}


def _any_of(words: Sequence[str]) -> re.Pattern[str]:
    patterns = (re.escape(word).replace(r"\*", r"\w*") for word in words)
    return re.compile(rf"\b(?:{'|'.join(patterns)})\b", re.IGNORECASE)


def automatic_criteria(text: str) -> tuple[str, ...]:
    """The protected criteria that a text names outright: an automatic pre-rating, no judgement.

    >>> automatic_criteria("had a strong accent")
    ('language',)
    >>> automatic_criteria("was too nervous")
    ()
    """
    return tuple(criterion for criterion, words in _lexicon().items() if words.search(text))
