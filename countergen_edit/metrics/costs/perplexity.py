"""Perplexity of neutral text, and how much an edit raises it."""

from __future__ import annotations

import math

import numpy as np

from countergen_edit.edits import EditRecord, NamedEdit
from countergen_edit.metrics.base import Cost, Degradation, MeasuredSplit, Quantity, Standing, alike
from countergen_edit.metrics.blocks import Number
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.costs.neutral import NeutralCost, TextsDrawn
from countergen_edit.metrics.results import Results
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

    def rows(
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

    @classmethod
    def quantities(cls, results: Results, split: str = "test") -> list[Quantity]:
        """The ratio, which counts, and perplexity itself, which stands alone without edits."""
        ratios = [
            Quantity(
                cls.title,
                alike(results, row),
                "cost",
                axis="perplexity ratio (1 = unchanged)",
                covers=(1.0, 1.01),
            )
            for row in results.unedited(cls.counts, split)
        ]
        plain = [
            Quantity(
                "perplexity of neutral text",
                alike(results, row),
                "cost",
                main=results.is_unedited,
                drawn=False,
            )
            for row in results.unedited("perplexity", split)
        ]
        return plain if results.is_unedited else ratios + plain

    @classmethod
    def leaderboard(cls, results: Results) -> list[Standing]:
        """Perplexity itself: of other papers' models there is no ratio."""
        rows = results.unedited("perplexity")[:1]
        note = f"Perplexity is of {rows[0].n} texts about nobody, which are drawn." if rows else ""
        known = alike(results, rows[0]) if rows else {}
        quantity = Quantity("perplexity", known, cls.kind, digits=2)
        return [Standing(quantity, notes=(note,), measured_by="cost=perplexity")]

    @classmethod
    def outcome(cls, results: Results, edit: EditRecord) -> str:
        """The ratio under an edit."""
        ratios = results.of(cls.counts, edit=edit.id)
        return f"neutral perplexity × {Number.of(ratios[0]).text}" if ratios else ""
