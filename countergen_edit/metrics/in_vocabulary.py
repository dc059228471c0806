"""Sets left out because their words are not in the model's training corpus.

A model with planted bias (the testbed) declares the words of its corpus. Differences between other
words, which it knows by spelling only, are not group differences. Rows: `in_vocabulary` of each set
left out, the share of its texts within the vocabulary.
"""

from __future__ import annotations

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row

EXAMPLES = 6
"""Unknown words kept in a row."""


class InVocabulary(Metric):
    """The share of a set's texts within the model's vocabulary."""

    is_selectable = False

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        if edit is not None or split != "test":
            return []
        rows = []
        for one in self.task.out_of_vocabulary:
            detail = {"words": [*one.words[:EXAMPLES]], "unknown": len(one.words)}
            n = len(one.data.texts)
            rows.append(Row.of("in_vocabulary", one.share, one.data, n=n, detail=detail))
        return rows
