"""Which word of one group stands for which word of the other.

Comes in: an axis and the `substitution` section of its config. Goes out: pairs of names and pairs
of words for two groups. Refused: name lists of unequal length, rows that fit no column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.typed import require
from countergen_edit.data.axis import SPLITS, Axis, Group

PRONOUN_FORMS = frozenset(["subject", "object", "possessive", "reflexive"])
"""Word forms of an axis that follow the grammar of pronouns, not a plain pair."""

_TYPES: Mapping[str, Any] = {
    "columns": Sequence[str] | None,
    "words": Sequence[Sequence[Any]] | None,
    "names": Sequence[Sequence[Any]] | None,
    "keep": Sequence[str] | None,
}


@dataclass(frozen=True)
class WordTable:
    """The word lists of an axis: a row means one thing, a column is one group."""

    columns: tuple[str, ...] = ()
    words: tuple[tuple[str | None, ...], ...] = ()
    """A word per group; None where a group has none."""
    names: tuple[tuple[str | None, ...], ...] = ()
    """Names beyond those of the axis, for texts that were not made from templates."""
    keep: tuple[str, ...] = ()
    """Phrases that are never changed: man-made, mother tongue."""

    @classmethod
    def from_config(cls, axis: Axis, config: Mapping[str, Any]) -> WordTable:
        """Check a `substitution` section.

        Raises:
            UserError: an unknown key or group, or a row whose cells do not match the columns.
        """
        require(Mapping[str, Any], config, f"axis {axis.name!r}: substitution")
        for key in config:
            if key not in _TYPES:
                raise unknown("substitution key", key, _TYPES)
            require(_TYPES[key], config[key], f"axis {axis.name!r}: substitution.{key}")
        columns = tuple(config.get("columns") or axis.groups)
        for column in columns:
            if column not in axis.groups:
                raise unknown(f"substitution column of axis {axis.name!r}:", column, axis.groups)
        rows: dict[str, tuple[tuple[str | None, ...], ...]] = {}
        for key in ("words", "names"):
            rows[key] = tuple(tuple(row) for row in config.get(key) or ())
            for row in rows[key]:
                cells = [cell for cell in row if cell is not None]
                if not all(isinstance(cell, str) and cell for cell in cells):
                    raise UserError(
                        f"axis {axis.name!r}: substitution row {list(row)} holds something that is "
                        "no word; put words such as yes, no and numbers in quotes"
                    )
                if len(row) != len(columns):
                    raise UserError(
                        f"axis {axis.name!r}: substitution row {list(row)} has {len(row)} cells "
                        f"for the columns {list(columns)}; write ~ where a group has no word"
                    )
                if len({cell[0].isupper() for cell in cells}) > 1:
                    raise UserError(
                        f"axis {axis.name!r}: substitution row {list(row)} mixes capitalised and "
                        "small words; capitals are taken over from the text, so write them alike"
                    )
        return cls(columns, rows["words"], rows["names"], tuple(config.get("keep") or ()))


def word_pairs(a: Group, b: Group, table: WordTable) -> list[tuple[str, str]]:
    """Words of the two groups with one meaning: the axis's own forms, then the rows of the table.

    A word that both groups share is left out.
    """
    forms = [
        (a.forms[slot], b.forms[slot])
        for slot in a.forms
        if slot not in PRONOUN_FORMS and slot in b.forms
    ]
    pairs = [*forms, *_cells(table.columns, table.words, a, b)]
    return [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]


def name_pairs(
    a: Group, b: Group, table: WordTable, own: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Names of the two groups, one to one: the user's own, then the axis's by place in its lists.

    A name of the axis whose partner the user gave to another is paired with the next free one.

    Raises:
        UserError: the lists of a split differ in length, or a name would get two partners.
    """
    candidates = [*_by_place(a, b), *_cells(table.columns, table.names, a, b)]
    of_a, of_b = [p[0] for p in candidates], [p[1] for p in candidates]
    pairs = [
        (right, left) if left in of_b or right in of_a else (left, right)
        for left, right in own.items()
    ]
    used = {name for pair in pairs for name in pair}
    pairs += [pair for pair in candidates if not used & set(pair)]
    broken = [pair for pair in candidates if used & set(pair)]
    free_a = [x for x, _ in broken if x not in used]
    free_b = [y for _, y in broken if y not in used]
    pairs += zip(free_a, free_b, strict=False)  # own names can leave one over
    names: set[str] = set()
    for pair in pairs:
        for name in pair:
            if name in names:
                raise UserError(
                    f"name {name!r} would be swapped with two names; "
                    "give every name one partner, and every partner one name"
                )
            names.add(name)
    return pairs


def _by_place(a: Group, b: Group) -> Iterator[tuple[str, str]]:
    for split in SPLITS:
        names_a, names_b = a.names.get(split, ()), b.names.get(split, ())
        if len(names_a) != len(names_b):
            raise UserError(
                f"groups {a.name!r} and {b.name!r} have {len(names_a)} and {len(names_b)} names in "
                f"the {split!r} split: they cannot be paired one to one; give both the same number"
            )
        # People of crossed axes may be in both groups, as other words indicate: they stay.
        yield from ((x, y) for x, y in zip(names_a, names_b, strict=True) if x != y)


def _cells(
    columns: tuple[str, ...], rows: tuple[tuple[str | None, ...], ...], a: Group, b: Group
) -> Iterator[tuple[str, str]]:
    if a.name not in columns or b.name not in columns:
        return
    i, j = columns.index(a.name), columns.index(b.name)
    for row in rows:
        left, right = row[i], row[j]
        if left is not None and right is not None:
            yield left, right
