"""The project's terms, read from `glossary.yaml`: meaning, limits and source of each."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import shipped_yaml
from countergen_edit.reports.blocks import Block, Section, Table, Words, unfolded

EVERYDAY = ("Data", "Runs")
"""Sections whose terms are common words: only column titles use them as terms."""


@dataclass(frozen=True)
class Term:
    """An entry of the glossary."""

    term: str
    of: str
    """Section of the glossary."""
    says: str
    """Meaning, in one or two sentences."""
    limits: str = ""
    """What it does not show."""
    source: str = ""
    """Paper, and place in it."""
    aliases: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    """Metrics in `results.jsonl` that report it."""
    see: tuple[str, ...] = ()
    """Related terms."""

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that `find` accepts for it."""
        return (self.term, *self.aliases, *self.rows)


@cache
def glossary() -> tuple[Term, ...]:
    """Every term, in the order of the file."""
    entries: list[dict[str, Any]] = shipped_yaml(Path(__file__).with_name("glossary.yaml"))
    lists = ("aliases", "rows", "see")
    return tuple(Term(**e | {key: tuple(e.get(key, ())) for key in lists}) for e in entries)


def find(word: str) -> Term | None:
    """The term of a name, in any spelling; None if unknown.

    >>> find("mean_abs_r").term
    'mean |R|'
    >>> find("2b-v-v").term
    '2B−V−V'
    """
    return _by_name().get(_plain(word))


def explain(word: str) -> Term:
    """The term of a name.

    Raises
    ------
    UserError
        Unknown name.

    >>> explain("guardednes")
    Traceback (most recent call last):
        ...
    countergen_edit.core.errors.UserError: no term 'guardednes': did you mean 'guardedness'? \
countergen-edit help lists all
    """
    if (term := find(word)) is not None:
        return term
    [near] = difflib.get_close_matches(_plain(word), _by_name(), n=1, cutoff=0.0)
    name = next(name for name in _by_name()[near].names if _plain(name) == near)
    raise UserError(f"no term {word!r}: did you mean {name!r}? countergen-edit help lists all")


@cache
def _by_name() -> dict[str, Term]:
    return {_plain(name): term for term in glossary() for name in term.names}


def _plain(word: str) -> str:
    """A name without case, dashes, underscores and repeated spaces."""
    word = unicodedata.normalize("NFKC", word).casefold()
    dashes = dict.fromkeys(map(ord, "_-−–‐"), " ")
    return " ".join(word.translate(dashes).split())


def terms_by_block(section: Section) -> list[list[Term]]:
    """For each block of a section the terms that no block before it uses."""
    known: set[Term] = set()
    by_block = []
    for block in section.blocks:
        used = [term for term in _terms_in(block) if term not in known]
        known.update(used)
        by_block.append(used)
    return by_block


def _terms_in(block: Block) -> list[Term]:
    """The terms in the sentences, titles and labels of a block; cells may be texts of models."""
    parts = [*unfolded([block])]
    columns = [c for part in parts if isinstance(part, Table) for c in part.columns]
    heads = {name for column in columns for name in (column, *column.split(", "))}
    text = "\n".join(line for part in parts for line in _labels(part))
    return [
        term
        for term in glossary()
        if heads & {*term.names}
        or (
            term.of not in EVERYDAY
            and any(
                _as_word(name).search(text)
                for name in (term.term, *(term.aliases if term.of == "Erasers" else ()))
            )
        )
    ]


@cache
def _as_word(name: str) -> re.Pattern[str]:
    flags = re.IGNORECASE if len(name) > 2 else 0  # R is a term, r is not
    return re.compile(rf"(?<![\w|]){re.escape(name)}(?![\w|*])", flags)


def _labels(part: Any) -> Iterator[str]:
    if isinstance(part, Words):
        yield from part.sentences
        return
    yield from (part.title, part.note)
    if isinstance(part, Table):
        yield from part.columns
        return
    for panel in part.panels:
        yield from (panel.title, panel.x_label, panel.y_label, *(s.name for s in panel.series))
