"""The terms of the project: what each means, what it does not show, and where it is from.

Comes in: `glossary.yaml`, which lies beside this file. Goes out: `Term`s, in the file's order or by
any of their names. Refused: a word that is none of them, with the nearest one.
"""

from __future__ import annotations

import difflib
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from countergen_edit.errors import UserError
from countergen_edit.reading import shipped_yaml


@dataclass(frozen=True)
class Term:
    """A term and what is to be known of it."""

    term: str
    """As it is written in prose."""
    of: str
    """The part of the glossary that it stands in."""
    says: str
    """What it means, in one or two sentences."""
    limits: str = ""
    """What it does not show; empty where nothing is easily mistaken."""
    source: str = ""
    """Where it is from: a paper, and the place in it."""
    aliases: tuple[str, ...] = ()
    """What else it is called."""
    rows: tuple[str, ...] = ()
    """Metrics in `results.jsonl` that are it, or are about it."""
    see: tuple[str, ...] = ()
    """Terms that go with it."""

    @property
    def names(self) -> tuple[str, ...]:
        """All that it is found by."""
        return (self.term, *self.aliases, *self.rows)


@cache
def glossary() -> tuple[Term, ...]:
    """Every term, in the order of the file, part by part."""
    entries: list[dict[str, Any]] = shipped_yaml(Path(__file__).with_name("glossary.yaml"))
    return tuple(map(_term, entries))


def _term(entry: dict[str, Any]) -> Term:
    several = {key: tuple(entry.get(key, ())) for key in ("aliases", "rows", "see")}
    return Term(**(entry | several))


def find(word: str) -> Term | None:
    """The term that goes by a name, however it is written; None where there is none.

    >>> find("mean_abs_r").term
    'mean |R|'
    >>> find("2b-v-v").term
    '2B−V−V'
    """
    return _by_name().get(_plain(word))


def explain(word: str) -> Term:
    """The term that goes by a name.

    Raises:
        UserError: none does.

    >>> explain("guardednes")
    Traceback (most recent call last):
        ...
    countergen_edit.errors.UserError: no term 'guardednes': did you mean 'guardedness'? \
countergen-edit help lists all
    """
    if (term := find(word)) is not None:
        return term
    [near] = difflib.get_close_matches(_plain(word), _by_name(), n=1, cutoff=0.0)
    said = next(name for name in _by_name()[near].names if _plain(name) == near)
    raise UserError(f"no term {word!r}: did you mean {said!r}? countergen-edit help lists all")


@cache
def _by_name() -> dict[str, Term]:
    return {_plain(name): term for term in glossary() for name in term.names}


def _plain(word: str) -> str:
    """A name without what people write in more ways than one: case, dashes, underscores, spaces."""
    word = unicodedata.normalize("NFKC", word).casefold()
    dashes = dict.fromkeys(map(ord, "_-−–‐"), " ")
    return " ".join(word.translate(dashes).split())
