"""The project's terms, read from `glossary.yaml`: meaning, limits and source of each."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import shipped_yaml
from countergen_edit.reports.blocks import Section, Table


@dataclass(frozen=True)
class Term:
    """An entry of the glossary."""

    term: str
    of: str
    """Section of the glossary."""
    says: str
    """Meaning, in one or two sentences."""
    limits: str = ""
    """Conclusions that it does not allow."""
    source: str = ""
    """Paper, and place in it."""
    aliases: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    """Metrics in `results.jsonl` that report it."""
    see: tuple[str, ...] = ()
    """Related terms."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that `find` accepts for it."""
        return (self.term, *self.aliases, *self.rows)


@cache
def glossary() -> tuple[Term, ...]:
    """Every term, in the order of the file."""
    entries: list[dict[str, Any]] = shipped_yaml(Path(__file__).with_name("glossary.yaml"))
    lists = ("aliases", "rows", "see")
    return tuple(Term(**e | {key: tuple(e.get(key, ())) for key in lists}) for e in entries)


@cache
def _by_name() -> dict[str, tuple[str, Term]]:
    """Every name and its term, by the name without case, dashes and repeated spaces."""
    return {_plain(name): (name, term) for term in glossary() for name in term.names}


def _plain(word: str) -> str:
    dashes = dict.fromkeys(map(ord, "_-−–‐"), " ")
    return " ".join(word.casefold().translate(dashes).split())


def find(word: str) -> Term | None:
    """The term of a name, in any spelling; None if unknown.

    >>> find("mean_abs_r").term, find("2b-v-v").term
    ('mean |R|', '2B−V−V')
    """
    return _by_name().get(_plain(word), ("", None))[1]


def explain(word: str) -> Term:
    """The term of a name; `UserError` with the nearest if unknown."""
    if (term := find(word)) is not None:
        return term
    [near] = difflib.get_close_matches(_plain(word), _by_name(), n=1, cutoff=0.0)
    name = _by_name()[near][0]
    raise UserError(f"no term {word!r}: did you mean {name!r}? countergen-edit help lists all")


def terms() -> Section:
    """The glossary as a tab."""
    lines = tuple((term.of, term.term, term.says, term.limits) for term in glossary())
    columns = ("section", "term", "meaning", "limits")
    table = Table("terms", "Terms", columns, lines, searchable=True, grouped=True)
    return Section("terms", "Terms", (table,))
