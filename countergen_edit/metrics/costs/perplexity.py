"""Perplexity of neutral text, and how much an edit raises it."""

from __future__ import annotations

import math

import numpy as np

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import Cost, Degradation, MeasuredSplit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.costs.neutral import NeutralCost, TextsDrawn
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import estimate


def perplexity_rows(cost: NeutralCost, split: str, seed: int) -> list[Row]:
    """Rows `perplexity` and `perplexity_ratio` (edited/unedited), on the same resamples."""
    texts = TextsDrawn(cost, split, seed)
    change = texts.per_token(cost.nll_edited - cost.nll_unedited)
    edited = texts.per_token(cost.nll_edited)
    return [
        texts.row("perplexity", estimate(np.exp(edited), texts.weights, within=(1, math.inf))),
        texts.row(
            "perplexity_ratio", estimate(np.exp(change), texts.weights, within=(0, math.inf))
        ),
    ]


class Perplexity(Cost):
    """Perplexity on neutral text; its ratio to the unedited model's is a cost above 1."""

    reads_logits = True
    counts = "perplexity_ratio"
    default_budget = 0.01
    title = "perplexity ratio"

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows `perplexity` and `perplexity_ratio`; none where the task has no such text."""
        texts = self.task.neutral.get(split)
        if not texts:
            return []
        return perplexity_rows(context.neutral(texts, edit), split, context.seed)

    def degradation(self, before: Row, after: Row) -> Degradation | None:
        """The share of perplexity that is gained; what rounding adds to a ratio is taken off."""
        if after.value is None:
            return None
        return Degradation(round(after.value - 1, 12), self.budget)
