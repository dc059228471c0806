"""Perplexity of neutral text and KL divergence on it, of which an edit raises both."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import Cost, Degradation, MeasuredSplit, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.costs.neutral import TextsDrawn
from countergen_edit.metrics.rows import Row


class NeutralTextCost(Cost):
    """A cost on the task's neutral text."""

    reads_logits = True

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """The rows of the texts; none where the task has no such text."""
        texts = self.task.neutral.get(split)
        if not texts:
            return []
        return self.rows(TextsDrawn(context.neutral(texts, edit), split, context.seed))

    @abstractmethod
    def rows(self, texts: TextsDrawn) -> list[Row]:
        """The rows, on the same resamples of the texts."""


class Perplexity(NeutralTextCost):
    """Perplexity on neutral text; its ratio to the unedited model's is a cost above 1."""

    counts = "perplexity_ratio"
    better: ClassVar[Mapping[str, Way]] = {"perplexity": "lower"}
    default_budget = 0.01
    title = "perplexity ratio"

    def rows(self, texts: TextsDrawn) -> list[Row]:
        """Rows `perplexity` and `perplexity_ratio` (edited/unedited)."""
        cost = texts.cost
        change = texts.per_token(cost.nll_edited - cost.nll_unedited)
        edited = texts.per_token(cost.nll_edited)
        return [
            texts.row("perplexity", np.exp(edited), (1, math.inf)),
            texts.row("perplexity_ratio", np.exp(change), (0, math.inf)),
        ]

    def degradation(self, before: Row, after: Row) -> Degradation | None:
        """The share of perplexity that is gained; what rounding adds to a ratio is taken off."""
        if after.value is None:
            return None
        return Degradation(round(after.value - 1, 12), self.budget)


class KL(NeutralTextCost):
    """KL(unedited ‖ edited) of next-token distributions on neutral text, in nats per token."""

    is_of_edits = True
    counts = "kl"
    default_budget = 0.05
    title = "KL"
    digits = 4

    def rows(self, texts: TextsDrawn) -> list[Row]:
        """The row `kl`."""
        return [texts.row("kl", texts.per_token(texts.cost.kl), (0, math.inf))]
