"""Perturbations of a sentence: the sentence with one thing about it changed (Yona et al. 2023, 5).

Comes in: a sentence, sentences by kind that no rule makes, an axis whose groups are swapped. Goes
out: perturbations by kind. Refused: one that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from countergen_edit.data.text.substitution import Substitution
from countergen_edit.errors import UserError


@dataclass(frozen=True)
class Perturbation:
    """A source sentence, what it was made into, and how."""

    kind: str
    source: str
    text: str


def perturbations(
    source: str,
    sentences: Mapping[str, Sequence[str]],
    substitution: Substitution | None,
    per_kind: int = 10,
) -> list[Perturbation]:
    """The perturbations of a sentence: those that rules make, and those that are given.

    Args:
        source: The sentence.
        sentences: Kind → sentences, such as synonyms, which no rule makes.
        substitution: Swaps the groups of an axis, and gives the axis's name to the kind.
        per_kind: At most so many by each rule, spread over the sentence.

    Raises:
        UserError: a given sentence is the source itself.
    """
    by_kind: dict[str, list[str]] = {}
    if substitution is not None:
        swapped = substitution.swap(source)
        by_kind[substitution.axis.name] = [swapped] if swapped != source else []
    for kind, rule in RULES.items():
        every = [text for text in rule(source) if text != source]
        spread = np.unique(np.linspace(0, len(every) - 1, min(per_kind, len(every))).round())
        by_kind[kind] = [every[int(i)] for i in spread]
    for kind, texts in sentences.items():
        if source in texts:
            raise UserError(f"the {kind!r} perturbation changes nothing in {source!r}")
        by_kind[kind] = [*by_kind.get(kind, ()), *texts]
    return [Perturbation(kind, source, text) for kind, texts in by_kind.items() for text in texts]


def _at_words(
    source: str, least: int, change: Callable[[str], str], last: bool = True
) -> list[str]:
    """The sentence with one word changed, for each word of `least` letters or more."""
    words = source.split(" ")
    return [
        " ".join([*words[:i], change(word), *words[i + 1 :]])
        for i, word in enumerate(words)
        if len(word) >= least and word.isalpha() and (last or i < len(words) - 1)
    ]


RULES: dict[str, Callable[[str], list[str]]] = {
    "spelling": lambda source: _at_words(
        source,
        5,
        lambda w: w[: len(w) // 2 - 1] + w[len(w) // 2] + w[len(w) // 2 - 1] + w[len(w) // 2 + 1 :],
    ),
    "letter duplication": lambda source: _at_words(source, 3, lambda w: w + w[-1]),
    "punctuation": lambda source: _at_words(source, 2, lambda w: w + ",", last=False),
}
"""Kind → every sentence that the rule makes of one."""
