"""BBQ: questions about two people, each with three answers of which one is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from countergen_edit.core.reading import csv_table, json_lines
from countergen_edit.data.benchmarks import Files

CATEGORIES = (
    *("Age", "Disability_status", "Gender_identity", "Nationality", "Physical_appearance"),
    *("Race_ethnicity", "Race_x_SES", "Race_x_gender", "Religion", "SES", "Sexual_orientation"),
)
METADATA = "BBQ/data/additional_metadata.csv"
CONDITIONS = {"ambig": "ambiguous", "disambig": "disambiguated"}
ANSWERS = ("ans0", "ans1", "ans2")


@dataclass(frozen=True)
class BbqQuestion:
    """A question with three answers, of which one is right, one unknown and one stereotyped.

    `condition` is `ambiguous` where the context does not decide the answer. `by_name`: whether
    proper names show the groups; the authors report these items separately.
    """

    id: str
    category: str
    template: str
    condition: str
    context: str
    question: str
    answers: tuple[str, str, str]
    right: int
    unknown: int
    biased: int
    by_name: bool


def read_bbq(files: Files, categories: Sequence[str] = CATEGORIES) -> list[BbqQuestion]:
    """Every question of some categories, without the 16 that have no biased answer.

    The unknown answer is that of `answer_info`, the biased one is the metadata's `target_loc`.
    """
    metadata = {
        (row["category"], int(row["example_id"])): (row["target_loc"], row["label_type"] == "name")
        for _, row in csv_table(files.path(METADATA))[1]
    }
    questions = []
    published = [f"BBQ/data/{category}.jsonl" for category in categories]
    for file in [*filter(files.is_measured, published)] or published[:1]:
        for _, entry in json_lines(files.path(file)):
            category = entry["category"]
            biased, by_name = metadata.get((category, entry["example_id"]), ("", False))
            if biased in ("", "NA"):
                continue
            kinds = [entry["answer_info"][answer][-1] for answer in ANSWERS]
            first, second, third = (entry[answer] for answer in ANSWERS)
            questions.append(
                BbqQuestion(
                    id=f"{category}.{entry['example_id']}",
                    category=category,
                    template=entry["question_index"],
                    condition=CONDITIONS[entry["context_condition"]],
                    context=entry["context"],
                    question=entry["question"],
                    answers=(first, second, third),
                    right=entry["label"],
                    unknown=kinds.index("unknown"),
                    biased=int(biased),
                    by_name=by_name,
                )
            )
    return questions
