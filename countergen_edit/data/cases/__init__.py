"""Cases to decide about people, and decisions already taken, in CSV files.

A case has these columns:

    case          what is decided on, with slots for the person, `{name}` among them
    question      what is asked after it, or around `{case}`; `{answers}` lists the answers, and is
                  asked with the list in either order
    answers       the possible answers, such as `Yes|No`, `1|2|3|4|5` or `home|clinic|emergency`
    favourable    those that favour the person: the first if missing; of numbers their place
                  between the lowest (0) and the highest (1)
    topic         cases of one topic are one cluster, two topics at least
    label         the right answer, if it is known
    cue           the end of the prompt outside a chat template

A decision that was taken has a `decision`, the answer, and its `group`, or several columns
`group_AXIS`; `topic` and `person` are the clusters, and others are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.reading import csv_table
from countergen_edit.data.axis import Axis, Group
from countergen_edit.data.templates import render, slot_names

CASE_FILES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.csv")))
CASE_PRONOUNS = {"subject": "", "object": "", "possessive": "'s", "reflexive": ""}
"""Endings of the name that stands for a pronoun where the axis has none."""
_NEEDED = ("case", "question", "answers", "topic")
_OPTIONAL = ("favourable", "label", "cue")
_GROUP = "group"
_CUE = "\n\nAnswer:"
_FAVOURABLE = ("yes", "true", "accept", "accepted", "approve", "approved", "hired", "granted")


@dataclass(frozen=True)
class Case:
    """A question about one case, with slots for the person."""

    topic: str
    text: str
    answers: Mapping[str, float]
    """The worth of each answer to the person, from 0 to 1."""
    label: float | None
    """The worth of the right answer, if it is known."""
    cue: str

    @property
    def orders(self) -> tuple[int, ...]:
        """The orders of the answers that are asked: 0 as they are given, 1 turned round."""
        return (0, 1) if "answers" in slot_names(self.text) else (0,)

    def asked(self, group: Group, name: str, order: int = 0) -> str:
        """The prompt about one person of a group.

        >>> jane = Group("female", {}, {"object": "her"})
        >>> text, answers = "{name} is {possessive} boss. {answers}?", {"Yes": 1.0, "No": 0.0}
        >>> Case("", text, answers, None, "").asked(jane, "Jane", order=1)
        "Jane is Jane's boss. No or Yes?"
        """
        words = {slot: name + ending for slot, ending in CASE_PRONOUNS.items()} | {"name": name}
        *most, last = [*self.answers][:: -1 if order else 1]
        words |= {**group.forms, "answers": f"{', '.join(most)} or {last}"}
        return render(self.text, {slot: {"base": word} for slot, word in words.items()})[0]


def read_cases(name: str) -> tuple[Case, ...]:
    """The cases of a shipped file by its name, or of a CSV file; `UserError` for another form."""
    if Path(name).suffix:
        path = Path(name).expanduser()
    else:
        require_known("cases", name, CASE_FILES)
        path = Path(__file__).with_name(f"{name}.csv")
    columns, rows = csv_table(path, (*_NEEDED, *_OPTIONAL))
    for column in columns:
        require_known(f"column of {path}", column, (*_NEEDED, *_OPTIONAL))
    _require(columns, _NEEDED, path)
    cases = tuple(_case(where, row) for where, row in rows)
    if len({case.topic for case in cases}) < 2:
        raise UserError(f"{path} needs cases of two topics or more")
    return cases


def _require(columns: Sequence[str], needed: Sequence[str], path: Path) -> None:
    if lacking := [column for column in needed if column not in columns]:
        raise UserError(f"{path} has no column {lacking[0]!r}: it has {', '.join(columns)}")


def _case(where: str, row: Mapping[str, Any]) -> Case:
    cell = {column: (value or "").strip() for column, value in row.items()}
    answers = worth_of(cell["answers"].split("|"), cell.get("favourable", ""), where)
    for answer, other in permutations(answers, 2):
        if other.startswith(answer):
            raise UserError(f"{where}answer {answer!r} begins {other!r}: no reply tells which")
    question = cell["question"]
    text = question if "{case}" in question else f"{{case}}\n\n{question}"
    text = text.replace("{case}", cell["case"])
    if "name" not in slot_names(text):
        raise UserError(f"{where}the case lacks {{name}}: {text[:60]!r}")
    if label := cell.get("label", ""):
        require_known(f"{where}label", label, answers)
    cue = row["cue"] or "" if "cue" in row else _CUE
    return Case(cell["topic"], text, answers, answers.get(label), cue)


def worth_of(answers: Sequence[str], favourable: str, where: str = "") -> dict[str, float]:
    """The worth of each answer to the person: 1 if favourable, of numbers the place in the range.

    >>> worth_of(["home", "clinic"], "clinic"), worth_of(["1", "3", "2"], "")
    ({'home': 0.0, 'clinic': 1.0}, {'1': 0.0, '3': 1.0, '2': 0.5})

    `UserError` unless there are two answers or more, and some but not all are favourable.
    """
    distinct = [*dict.fromkeys(answer.strip() for answer in answers)]
    if len(distinct) < 2 or "" in distinct or len(distinct) < len(answers):
        raise UserError(f"{where}answers {'|'.join(answers)!r}: write two or more, such as Yes|No")
    scores = [number for answer in distinct if (number := _number(answer)) is not None]
    if not favourable and len(scores) == len(distinct):
        least, span = min(scores), max(scores) - min(scores)
        return {a: (x - least) / span for a, x in zip(distinct, scores, strict=True)}
    good = [answer.strip() for answer in favourable.split("|")] if favourable else distinct[:1]
    for answer in good:
        require_known(f"{where}favourable answer", answer, distinct)
    if len(good) == len(distinct):
        raise UserError(f"{where}every answer is favourable: {favourable!r}")
    return {answer: float(answer in good) for answer in distinct}


def _number(text: str) -> float | None:
    digits = text.removeprefix("-").replace(".", "", 1)
    return float(text) if digits.isdecimal() and digits.isascii() else None


def read_taken(path: Path) -> tuple[Axis, pd.DataFrame]:
    """The axis of a CSV file of decisions, and the decisions; `UserError` for another form.

    Columns are `group`, by which they are sorted, `worth`, `label`, `topic` and `person`.
    """
    columns, rows = csv_table(path, ("decision", _GROUP))
    by = [column for column in columns if f"{column}_".startswith(f"{_GROUP}_")]
    _require(columns, ("decision", *(by or [_GROUP])), path)
    for where, row in rows:
        for column in ("decision", *by, *({"topic", "person"} & {*columns})):
            if not (row[column] or "").strip():
                raise UserError(f"{where}no {column!r}")
    frame = pd.DataFrame([row for _, row in rows], columns=columns).fillna("")
    frame = frame.apply(lambda cells: cells.str.strip())
    worth = _worths(frame, path)
    axes = [column.removeprefix(f"{_GROUP}_") for column in by]
    group = frame[by].agg("_".join, axis=1)
    parts = dict(zip(group, frame[by].set_axis(axes, axis=1).to_dict("records"), strict=True))
    crossed = tuple(axes) if axes[1:] else ()
    groups = {name: Group(name, {}, {}, parts[name] if crossed else {}) for name in sorted(parts)}
    decisions = pd.DataFrame({"group": group, "worth": frame["decision"].map(worth)})
    decisions["label"] = frame["label"].map(worth) if "label" in frame else math.nan
    decisions["topic"] = frame.get("topic", "")
    decisions["person"] = frame.get("person", frame.index.to_series())
    return Axis("_".join(axes), groups, crossed), decisions.sort_values("group", kind="stable")


def _worths(frame: pd.DataFrame, path: Path) -> dict[str, float]:
    """The worth of each decision of a file, by the column `favourable` of its first row."""
    distinct = sorted(frame["decision"].unique())
    if len(distinct) < 2:
        raise UserError(f"{path}: decisions {distinct} do not differ")
    favourable = str(frame["favourable"][0]) if "favourable" in frame else ""
    if not favourable and None in map(_number, distinct):
        favourable = "|".join(answer for answer in distinct if answer.lower() in _FAVOURABLE)
        if not favourable:
            raise UserError(
                f"{path}: which of {', '.join(map(repr, distinct[:6]))} is favourable? Name it in "
                "a column 'favourable'"
            )
    return worth_of(distinct, favourable, f"{path}: ")
