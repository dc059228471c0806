"""The terms that a part of a report uses, so that each is explained where it stands.

Comes in: a section. Goes out: for each of its blocks the terms of the glossary that it names and no
block before it did. Everyday words count where they head a column, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from countergen_edit.reports.blocks import Block, Figure, Section, Table, Words, unfolded
from countergen_edit.reports.glossary import Term, glossary

EVERYDAY = ("Data", "Runs")
"""Parts of the glossary of words that mean elsewhere what they mean anywhere."""
NAMED = "Erasers"
"""The part whose terms go by any of their names within a label."""
SHORT = 2
"""Letters of a symbol, which is told from a word by its case."""


def terms_by_block(section: Section) -> list[tuple[Term, ...]]:
    """For each block of a section the terms that it uses first, in the order of the glossary."""
    told: set[str] = set()
    by_block = []
    for block in section.blocks:
        new = tuple(term for term in terms_in(block) if term.term not in told)
        told |= {term.term for term in new}
        by_block.append(new)
    return by_block


def terms_in(block: Block) -> list[Term]:
    """The terms that a block uses."""
    parts = [*unfolded([block])]
    heads = {head for part in parts for head in _heads(part)}
    text = "\n".join(line for part in parts for line in _texts(part))
    return [term for term in glossary() if _is_used(term, heads, text)]


def _is_used(term: Term, heads: set[str], text: str) -> bool:
    if heads & {*term.names}:
        return True
    if term.of in EVERYDAY:
        return False
    names = (term.term, *term.aliases) if term.of == NAMED else (term.term,)
    return any(_whole(name).search(text) for name in names)


@cache
def _whole(name: str) -> re.Pattern[str]:
    """A name as a word of its own; of a longer one the case does not matter."""
    flags = re.IGNORECASE if len(name) > SHORT else 0
    return re.compile(rf"(?<![\w|]){re.escape(name)}(?![\w|*])", flags)


def _heads(part: Words | Table | Figure) -> Iterator[str]:
    """What columns are called, whole and by the parts of an enumeration."""
    if isinstance(part, Table):
        for column in part.columns:
            yield from (column, *column.split(", "))


def _texts(part: Words | Table | Figure) -> Iterator[str]:
    """What a block is about; not the texts in its cells, which models wrote."""
    if isinstance(part, Words):
        yield from part.sentences
        return
    yield from (part.title, part.note)
    if isinstance(part, Table):
        yield from part.columns
        return
    for panel in part.panels:
        yield from (panel.title, panel.x_label, panel.y_label)
        yield from (series.name for series in panel.series)
