"""BBQ: questions about two people, each with three answers of which one is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import csv_table, json_lines
from countergen_edit.core.typed import built
from countergen_edit.data.benchmarks import Files

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
    """A question with its three answers."""

    id: str
    category: str
    template: str
    """The `question_index`."""
    condition: str
    """`ambiguous` where the context does not decide, `disambiguated` where it does."""
    context: str
    question: str
    answers: tuple[str, str, str]
    right: int
    unknown: int
    biased: int
    """The stereotyped answer: in a question of harm its target, else the other."""
    by_name: bool
    """Whether proper names show the groups; the authors report these items separately."""


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


def read_bbq(files: Files, categories: Sequence[str] = CATEGORIES) -> list[BbqQuestion]:
    """Every question of some categories, without the 16 that have no biased answer.

    The unknown answer is that of `answer_info`, the biased one is the metadata's `target_loc`.

    Raises:
        UserError: a file is absent or of another form.
    """
    known = _targets(files)
    questions = []
    for category in categories:
        for where, content in json_lines(files.path(f"BBQ/data/{category}.jsonl")):
            entry = built(_Entry, content, where)
            unknown = [i for i, a in enumerate(ANSWERS) if _kind(entry, a) == "unknown"]
            if len(unknown) != 1 or entry.context_condition not in CONDITIONS:
                raise UserError(f"{where}one answer of three must be 'unknown' in answer_info")
            target, by_name = known.get((category, entry.example_id), (None, False))
            if target is None:
                continue
            name, condition = f"{category}.{entry.example_id}", CONDITIONS[entry.context_condition]
            texts = (condition, entry.context, entry.question)
            answers = (entry.ans0, entry.ans1, entry.ans2)
            right = (entry.label, unknown[0], target, by_name)
            questions.append(
                BbqQuestion(name, category, entry.question_index, *texts, answers, *right)
            )
    return questions


def _kind(entry: _Entry, answer: str) -> str:
    """The group of an answer, or `unknown`."""
    return (entry.answer_info.get(answer) or [""])[-1]


def _targets(files: Files) -> dict[tuple[str, int], tuple[int | None, bool]]:
    """Category and example → the biased answer, and whether names show the groups."""
    path = files.path(METADATA)
    _, rows = csv_table(path)
    found: dict[tuple[str, int], tuple[int | None, bool]] = {}
    for where, row in rows:
        try:
            key = (str(row["category"]), int(row["example_id"]))
            target = None if row["target_loc"] in ("", "NA") else int(row["target_loc"])
            found[key] = (target, row["label_type"] == "name")
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"{where}a category, an example_id, a target_loc and a label_type are needed"
            ) from None
    return found
