"""KL divergence of next-token distributions on neutral text."""

from __future__ import annotations

import math

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import Cost, MeasuredSplit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.costs.neutral import NeutralCost, TextsDrawn
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import estimate


def kl_row(cost: NeutralCost, split: str, seed: int) -> Row:
    """The row `kl`: KL(unedited ‖ edited), in nats per token."""
    texts = TextsDrawn(cost, split, seed)
    return texts.row("kl", estimate(texts.per_token(cost.kl), texts.weights, within=(0, math.inf)))


class KL(Cost):
    """KL divergence from the unedited model on neutral text, in nats per token."""

    is_of_edits = True
    reads_logits = True
    counts = "kl"
    default_budget = 0.05
    title = "KL"
    digits = 4

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """The row `kl`; none where the task has no such text."""
        texts = self.task.neutral.get(split)
        if not texts:
            return []
        return [kl_row(context.neutral(texts, edit), split, context.seed)]
