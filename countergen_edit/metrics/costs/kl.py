"""KL divergence of next-token distributions on neutral text."""

from __future__ import annotations

import math

from countergen_edit.edits import EditRecord, NamedEdit
from countergen_edit.metrics.base import Cost, MeasuredSplit, Quantity, alike
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.costs.neutral import NeutralCost, TextsDrawn
from countergen_edit.metrics.results import Results
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

    def rows(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """The row `kl`; none where the task has no such text."""
        texts = self.task.neutral.get(split)
        if not texts:
            return []
        return [kl_row(context.neutral(texts, edit), split, context.seed)]

    @classmethod
    def quantities(cls, results: Results, split: str = "test") -> list[Quantity]:
        """The divergence; perplexity, which moves with it, stands for neutral text in figures."""
        return [
            Quantity(
                cls.title,
                alike(results, row),
                "cost",
                cls.digits,
                axis="KL from the unedited model, nats per token",
                covers=(0.0, 0.05),
                drawn=False,
            )
            for row in results.unedited(cls.counts, split)
        ]

    @classmethod
    def outcome(cls, results: Results, edit: EditRecord) -> str:
        """Nothing: the perplexity of the same text is what a sentence tells."""
        return ""
