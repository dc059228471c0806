"""Rules of English as tables, in `english.yaml`: what stands before, at and after a place.

A rule has a field for each place, and an answer: `before | word | after -> answer`. A field lists
what may stand there, and is empty where anything may; `a+b` is both, `!a` anything else. Small
letters are a word, capitals a class or shape. The first rule that fits answers.
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
CLOSED = WORDS["prepositions"] | WORDS["closed"]

Labels = frozenset[str]
Rule = tuple[list[list[list[str]]], str]


def _parsed(line: str) -> Rule:
    fields, answer = line.split("#")[0].split("->")
    return [[o.split("+") for o in f.split()] for f in fields.split("|")], answer.strip()


RULES: Mapping[str, Sequence[Rule]] = {
    name: [*map(_parsed, table.splitlines())] for name, table in _ENGLISH["rules"].items()
}


def answer(table: str, *labels: Labels) -> str:
    """The answer of the first rule of a table that fits; empty where none does."""
    for fields, result in RULES[table]:
        if all(_fits(field, own) for field, own in zip(fields, labels, strict=True)):
            return result
    return ""


def _fits(options: list[list[str]], labels: Labels) -> bool:
    return not options or any(
        all((part[1:] not in labels) if part[0] == "!" else part in labels for part in option)
        for option in options
    )


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
    endings = _ENGLISH["endings"].items()
    shapes = {
        shape: key.endswith(tuple(own["of"].split())) and own["but"] not in found
        for shape, own in endings
        if not key.endswith(tuple(own.get("not", "-").split()))
    }
    number = key[:1].isdigit()
    shapes |= {"NUMBER": number, "CARDINAL": number and key[-1].isdigit(), "CLOSED": key in CLOSED}
    return labelled(found, **shapes, SIDED=key.startswith("<"), END=not key)
