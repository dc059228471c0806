"""Taught: which sets a model cannot be asked, as it never met their words.

A model whose directory says what was planted in it (the testbed) says with that of which words its
corpus was. Of others the model knows pieces of spelling alone: a difference between them would be
one of letters, and is not measured as one of people.

Comes in: the sets `untaught` of a task. Goes out: the row `taught` of each, the share of its texts
that are in words of the corpus. Of a model that says nothing of its corpus there are no rows.
"""

from __future__ import annotations

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.blocks import Number, Section, Table
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.panels import set_label
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.models import Workload

EXAMPLES = 6
"""Words that a sentence names."""


class InVocabulary(Metric):
    """The share of a set's texts that are in words which the model was taught."""

    is_selectable = False

    def workload(self) -> Workload:
        """Nothing: the corpus is known, and the model is not asked."""
        return Workload.scoring([])

    def rows(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """A row `taught` for each set that was left out, of the unedited model."""
        if edit is not None or split != "test":
            return []
        rows = []
        for one in self.task.out_of_vocabulary:
            detail = {"words": [*one.words[:EXAMPLES]], "unknown": len(one.words)}
            n = sum(len(sample.variations) for sample in one.data.samples)
            row = Row.of_set(
                one.data, "in_vocabulary", one.share, n=n, seed=context.seed, detail=detail
            )
            rows.append(row)
        return rows

    @classmethod
    def sections(cls, results: Results) -> list[Section]:
        """A line for each set that was left out."""
        rows = results.unedited("in_vocabulary")
        if not rows:
            return []
        lines = tuple(
            (
                set_label(row),
                str(row.n),
                Number.of(row, percent=True),
                ", ".join(row.detail["words"]),
            )
            for row in rows
        )
        table = Table(
            "in_vocabulary",
            "Not measured, for want of words",
            ("set", "prompts", "in words it knows", "words it never met"),
            lines,
            "Share of prompts with outputs whose every word stands in the corpus of the model, of "
            "the group with fewest. Less than half: the set is left out.",
            brief=True,
        )
        return [Section("bias", "Bias", (table,))]

    @classmethod
    def sentences(cls, results: Results) -> list[str]:
        """That nothing was measured, or what was left out, and why."""
        rows = results.unedited("in_vocabulary")
        if not rows:
            return []
        words = dict.fromkeys(word for row in rows for word in row.detail["words"])
        never = f"never met such words as {', '.join([*words][:EXAMPLES])}"
        if results.unedited("group_effect"):
            sets = ", ".join(map(set_label, rows))
            return [
                f"Left out: {sets}. In training the model {never}, and what it says after them is "
                "about their letters. What is measured rests on words that it was taught."
            ]
        axis = rows[0].axis.replace("_", " and ")
        return [
            f"Not measured: this model was taught nothing about {axis}. In training it {never}: a "
            "figure would say how they are spelled, not whether it is biased. Neither bias nor its "
            "absence is shown."
        ]
