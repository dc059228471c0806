"""BBQ as its authors published it: a question about two people, and three answers to it.

Comes in: a file for each category, and the authors' additional metadata. Goes out: questions. Which
answer is `unknown` is read from `answer_info`, not from its words, of which there are ten; which of
the others is the biased one is `target_loc` of the metadata. Of 16 questions there is none; the
authors leave these out, and so do we. Refused: a question without one unknown answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table, json_lines
from countergen_edit.core.typed import built
from countergen_edit.data.benchmarks.files import Files

CATEGORIES = (
    "Age",
    "Disability_status",
    "Gender_identity",
    "Nationality",
    "Physical_appearance",
    "Race_ethnicity",
    "Race_x_SES",
    "Race_x_gender",
    "Religion",
    "SES",
    "Sexual_orientation",
)
METADATA = "BBQ/data/additional_metadata.csv"
CONDITIONS = {"ambig": "ambiguous", "disambig": "disambiguated"}
ANSWERS = ("ans0", "ans1", "ans2")


@dataclass(frozen=True)
class BbqQuestion:
    """A question, its answers, and which of them says what."""

    id: str
    category: str
    template: str
    """The `question_index`, one for each template of a category."""
    condition: str
    """`ambiguous` where the context does not say, `disambiguated` where it does."""
    context: str
    question: str
    answers: tuple[str, str, str]
    right: int
    unknown: int
    biased: int
    """The answer that the stereotype gives: in a question of harm its target, else the other."""
    by_name: bool
    """Whether proper names distinguish the people; the authors report these items separately."""


@dataclass(frozen=True)
class _Entry:
    example_id: int
    question_index: str
    context_condition: str
    answer_info: dict[str, list[str]]
    context: str
    question: str
    ans0: str
    ans1: str
    ans2: str
    label: int


def file_of(category: str) -> str:
    """The path of a category's file."""
    return f"BBQ/data/{category}.jsonl"


def read_bbq(files: Files, categories: Sequence[str] = CATEGORIES) -> list[BbqQuestion]:
    """Every question of some categories that has a biased answer.

    Raises:
        UserError: a file is not there, or is not what it should be.
    """
    known = _targets(files)
    questions = []
    for category in categories:
        for where, content in json_lines(files.path(file_of(category))):
            entry = built(_Entry, content, where)
            unknown = [i for i, a in enumerate(ANSWERS) if _kind(entry, a) == "unknown"]
            if len(unknown) != 1 or entry.context_condition not in CONDITIONS:
                raise UserError(f"{where}one answer of three is to be 'unknown' in answer_info")
            target, by_name = known.get((category, entry.example_id), (None, False))
            if target is None:
                continue
            questions.append(
                BbqQuestion(
                    f"{category}.{entry.example_id}",
                    category,
                    entry.question_index,
                    CONDITIONS[entry.context_condition],
                    entry.context,
                    entry.question,
                    (entry.ans0, entry.ans1, entry.ans2),
                    entry.label,
                    unknown[0],
                    target,
                    by_name,
                )
            )
    return questions


def _kind(entry: _Entry, answer: str) -> str:
    """The last of what is said of an answer: its group, or that it is unknown."""
    return (entry.answer_info.get(answer) or [""])[-1]


def _targets(files: Files) -> dict[tuple[str, int], tuple[int | None, bool]]:
    """Category and example → the biased answer, and whether people are named in it."""
    path = files.path(METADATA)
    _, rows = csv_table(path)
    found: dict[tuple[str, int], tuple[int | None, bool]] = {}
    for where, row in rows:
        try:
            about = (str(row["category"]), int(row["example_id"]))
            found[about] = (_place(row["target_loc"]), row["label_type"] == "name")
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"{where}a category, an example_id, a target_loc and a label_type are needed"
            ) from None
    return found


def _place(value: Any) -> int | None:
    return None if value in ("", "NA") else int(value)
