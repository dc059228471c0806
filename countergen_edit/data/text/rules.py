"""Rules of English as tables, in `english.yaml`: what stands before, at and after a place.

A rule has a field for each place, and an answer: `before | word | after -> answer`. A field lists
what may stand there (if empty, anything): a word, or in capitals a class or shape; `a+b` is both,
`!a` is not a. The first rule that fits answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from countergen_edit.core.reading import shipped_yaml

_ENGLISH = shipped_yaml(Path(__file__).with_name("english.yaml"))
WORDS, COREFERENCE = (
    {name: frozenset(words.split()) for name, words in _ENGLISH[key].items()}
    for key in ("classes", "coreference")
)
"""Classes of words."""
_CLOSED = WORDS["prepositions"] | WORDS["closed"]
Labels = frozenset[str]
Rule = tuple[list[list[tuple[Labels, Labels]]], str]
"""For each field what may stand there, as what it has and what it lacks; and the answer."""


def _option(text: str) -> tuple[Labels, Labels]:
    has = frozenset(part for part in text.split("+") if part[0] != "!")
    return has, frozenset(part[1:] for part in text.split("+") if part[0] == "!")


def _rule(line: str) -> Rule:
    fields, answer = line.split("#")[0].split("->")
    return [[*map(_option, field.split())] for field in fields.split("|")], answer.strip()


_RULES: Mapping[str, Sequence[Rule]] = {
    name: [*map(_rule, table.splitlines())] for name, table in _ENGLISH["rules"].items()
}


def answer(table: str, *labels: Labels) -> str:
    """The answer of the first rule of a table that fits; empty where none does."""
    for fields, result in _RULES[table]:
        for options, own in zip(fields, labels, strict=True):
            if options and not any(has <= own and own.isdisjoint(no) for has, no in options):
                break
        else:
            return result
    return ""


def labelled(labels: Labels, **shapes: object) -> Labels:
    """Labels and the shapes that hold."""
    return labels | {shape for shape, holds in shapes.items() if holds}


@cache
def labels_of(key: str) -> Labels:
    """The word itself, and in capitals its classes and what its ending shows.

    >>> sorted(labels_of("softly"))
    ['ADVERB', 'COMMON', 'softly']
    """
    found = frozenset({key, *(name.upper() for name, words in WORDS.items() if key in words)})
    shapes = {
        shape: key.endswith(tuple(own["of"].split())) and own["but"] not in found
        for shape, own in _ENGLISH["endings"].items()
        if not key.endswith(tuple(own.get("not", "-").split()))
    }
    shapes |= {"NUMBER": key[:1].isdigit(), "CARDINAL": key.isdigit(), "CLOSED": key in _CLOSED}
    return labelled(found, **shapes, SIDED=key.startswith("<"), END=not key)
