"""Whom a pronoun refers to, asked of a model by the likelihood of either person.

The sentence is followed by the pronoun in quotation marks and "refers to the", the wording of
lm-evaluation-harness for Winogender; a person is the text after that. The authors of WinoBias and
of Winogender asked systems that resolve coreference, which a language model is not.
"""

from __future__ import annotations

from collections.abc import Sequence

ASKS = (
    "log-probability of either person after “‘Pronoun’ refers to the”, where its authors ask "
    "systems that resolve coreference"
)


def referents(sentence: str, pronoun: str, *people: str) -> tuple[tuple[str, str], ...]:
    """A prompt and the text of each person.

    >>> referents("The cook met the judge, who thanked her.", "her", "cook")
    (('The cook met the judge, who thanked her. ‘Her’ refers to the', ' cook'),)
    """
    prompt = f"{sentence} ‘{pronoun.capitalize()}’ refers to the"
    return tuple((prompt, f" {person}") for person in people)


def is_right(scores: Sequence[float]) -> float:
    """1 where the person who is meant, the first, is the likelier; of equal ones neither is."""
    meant, other = scores
    return float(meant > other)
