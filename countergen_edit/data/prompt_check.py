"""Prompts of the user's own, as either group would have them, and what is to be looked at by eye.

Comes in: a file of prompts, and an axis's substitution. Goes out: each prompt with both sides and
with findings, none where nothing speaks against it. Substitution turns everybody in a text into one
group, leaves what no list names, and reads an English `her` by what stands around it: a person
knows better. Refused: a file that cannot be read; a line that is none is a finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countergen_edit.core.conf_path import PROMPT_FILES
from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table, json_lines
from countergen_edit.data.axis import Split
from countergen_edit.data.sources.base import Request
from countergen_edit.data.sources.files import json_samples, table_samples
from countergen_edit.data.spacing import unspaced
from countergen_edit.data.text import grammar
from countergen_edit.data.text.grammar import Word
from countergen_edit.data.text.substitution import Substitution

PLACING = ("in", "at", "near", "into")
"""What stands before a place and hardly ever before a person."""
TAKEN: Mapping[Split, str] = {"fit": "fitted on", "validation": "chosen with"}
"""What names are for that prompts of one's own should not have."""
MOST = 3
"""Names that are suggested for one that is taken."""


@dataclass(frozen=True)
class Checked:
    """A prompt as a run would take it."""

    line: str
    """Where it stands."""
    text: str
    sides: tuple[tuple[str, ...], tuple[str, ...]]
    """The texts of the first group, and those of the second; empty where there are none."""
    findings: tuple[str, ...]


def check_prompts(path: str, substitution: Substitution) -> list[Checked]:
    """Every prompt of a file, in its order.

    Args:
        path: JSON lines or CSV, as `data=FILE` takes them.
        substitution: between the two groups that are compared.

    Raises:
        UserError: the file is not there, of another kind, empty, or holds a line that is not JSON.
    """
    request = Request(substitution.axis, "test", substitution.groups, substitution, None)
    kind = Path(path).suffix
    if kind not in PROMPT_FILES:
        raise UserError(f"{path}: a file that ends in {' or '.join(PROMPT_FILES)} is needed")
    if kind == ".csv":
        columns, table = csv_table(path)
        list(table_samples([], columns, f"{path}, line 1: ", request))  # the header
    else:
        columns, table = (), list(json_lines(path))
    texts = [text for _, row in table for text in row.values() if isinstance(text, str)]
    used = frozenset(name for text in texts for name in substitution.names_in(text))
    found = [_of_row(where, row, request, used, columns) for where, row in table]
    if not found:
        raise UserError(f"{path} is empty: it has no prompts to check")
    return found


def _of_row(
    where: str,
    row: Mapping[str, Any],
    request: Request,
    used: Collection[str],
    columns: Sequence[str],
) -> Checked:
    text = str(row.get("input") or next((row[g] for g in request.groups if g in row), ""))
    given = bool(row.get("variations")) or any(group in columns for group in request.groups)
    one = [(where, dict(row))]
    samples = table_samples(one, columns, where, request) if columns else json_samples(one, request)
    line = where.rpartition(", ")[2].rstrip(": ")
    try:
        [sample] = samples
    except UserError as error:
        return Checked(line, text, ((), ()), (str(error).removeprefix(where),))
    sides = tuple(
        tuple(v.text for v in sample.variations if v.group == group) for group in request.groups
    )
    every = [text] if not given else [t for side in sides for t in side]
    found = [] if given else [*_of_text(text, request.substitution)]
    found += _taken(every, request.substitution, used)
    found += _telling(sample.outputs, request.substitution)
    found += _unspaced(every, sample.outputs)
    return Checked(line, text, (sides[0], sides[1]), tuple(dict.fromkeys(found)))


def _of_text(text: str, substitution: Substitution) -> Iterator[str]:
    """What speaks against turning a text by its words."""
    words = substitution.words(text)
    by_side: dict[int, list[str]] = {}
    for i, word in enumerate(words):
        if word.side is not None and not grammar.in_proper_name(words, i):
            by_side.setdefault(word.side, []).append(word.text)
    if len(by_side) == len(substitution.groups):
        shown = "; ".join(
            f"{group}: {', '.join(dict.fromkeys(by_side[side]))}"
            for side, group in enumerate(substitution.groups)
        )
        yield (
            f"both groups are in it ({shown}), and everybody becomes one: give its variations "
            "yourself, or leave the others out"
        )
    yield from (
        f"{word!r} is no name that is known, and stays on both sides: give its variations "
        "yourself, or use another name"
        for word in _strangers(words)
    )
    for i, word in enumerate(words):
        if word.text.lower() == "her" and grammar.may_be_object_or_owner(words, i):
            read = "'his'" if grammar.before_own_noun(words, i) else "'him'"
            phrase = " ".join(w.text for w in words[max(0, i - 1) : i + 2])
            yield f"'her' is read as {read} in {phrase!r}: say it otherwise if that is wrong"


def _strangers(words: Sequence[Word]) -> Iterator[str]:
    """Capitalised words that may be names and are in no list.

    Where a text begins with one, it counts only if nothing but pronouns tell whom it is about.
    """
    by_pronouns = not any(w.side is not None and "pronoun" not in w.kind for w in words)
    for i, word in enumerate(words):
        before = words[i - 1] if i else None
        begins = before is None or not grammar.within_a_phrase(before.gap)
        if (
            not _may_be_name(word)
            or (begins and not by_pronouns)
            or (before is not None and before.text.lower() in PLACING)
            or (before is not None and before.kind in ("name", "title") and not begins)
            or (before is not None and not begins and _may_be_name(before))  # a surname
        ):
            continue
        yield word.text


def _may_be_name(word: Word) -> bool:
    return word.kind == "plain" and word.capitalised and not grammar.is_closed(word)


def _taken(
    texts: Iterable[str], substitution: Substitution, used: Collection[str]
) -> Iterator[str]:
    """Names of the file that erasers are fitted on, or layers chosen with."""
    groups = [substitution.axis.groups[group] for group in substitution.groups]
    for name in sorted({name for text in texts for name in substitution.names_in(text)}):
        for group in groups:
            for split, role in TAKEN.items():
                if name in group.names.get(split, ()):
                    free = [n for n in group.names.get("test", ()) if n not in used][:MOST]
                    instead = f": use others, such as {', '.join(free)}" if free else ""
                    yield f"edits are {role} {name!r}{instead}"


def _telling(outputs: Iterable[str], substitution: Substitution) -> Iterator[str]:
    """Outputs that show a group themselves."""
    for output in outputs:
        shown = [word.text for word in substitution.words(output) if word.side is not None]
        if shown:
            yield f"output {output!r} names a group itself ({', '.join(shown)})"


def _unspaced(texts: Iterable[str], outputs: Iterable[str]) -> Iterator[str]:
    """Outputs that join the last word of the prompt."""
    for output in unspaced(texts, outputs):
        yield (
            f"output {output!r} has no leading space, so that it joins the last word of the "
            f"prompt: write {' ' + output!r}"
        )
