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
from countergen_edit.metrics.context import EvaluationContext
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

    def measure(
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
