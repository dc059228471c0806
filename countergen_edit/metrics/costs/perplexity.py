"""Perplexity of neutral text and KL divergence on it, of which an edit raises both."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import Cost, Degradation, MeasuredSplit, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.costs.neutral import DATASETS, NeutralCost
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Clusters

Summed = Callable[[NeutralCost], Float64[np.ndarray, " text"]]


class NeutralTextCost(Cost):
    """A cost on the task's neutral text."""

    reads_logits = True
    figures: ClassVar[Mapping[str, tuple[Summed, float]]]
    """Row → what is summed over each text, and the least that the row can be."""
    is_exponential: ClassVar[bool] = False
    """Whether a row is the exponential of the mean over tokens."""

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """The rows of the texts, on the same resamples; none without texts."""
        texts = self.task.neutral.get(split)
        if not texts:
            return []
        cost = context.neutral(texts, edit)
        dataset = DATASETS[split]
        drawn = Clusters(context.seed, {(dataset, "texts"): np.arange(len(texts))})
        tokens, rows = drawn.mean(cost.tokens), []
        detail = {"tokens": int(cost.tokens.sum())}
        columns: dict[str, Any] = {"dataset": dataset, "n": len(texts), "detail": detail}
        for metric, (summed, least) in self.figures.items():
            mean = drawn.mean(summed(cost)) / tokens
            values = np.exp(mean) if self.is_exponential else mean
            rows.append(Row.of(metric, drawn.estimate(values, within=(least, math.inf)), **columns))
        return rows


class Perplexity(NeutralTextCost):
    """Perplexity on neutral text; its ratio to that unedited is the cost."""

    counts = "perplexity_ratio"
    better: ClassVar[Mapping[str, Way]] = {"perplexity": "lower"}
    default_budget = 0.01
    title = "perplexity ratio"
    is_exponential = True
    figures: ClassVar[Mapping[str, tuple[Summed, float]]] = {
        "perplexity": (lambda cost: cost.nll_edited, 1),
        "perplexity_ratio": (lambda cost: cost.nll_edited - cost.nll_unedited, 0),
    }

    def degradation(self, before: Row, after: Row) -> Degradation | None:
        """The relative rise of perplexity, without rounding of the ratio."""
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
    figures: ClassVar[Mapping[str, tuple[Summed, float]]] = {"kl": (lambda cost: cost.kl, 0)}
