"""Perplexity of neutral text and KL divergence on it, of which an edit raises both."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import Cost, Degradation, MeasuredSplit, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.costs.neutral import DATASETS, NeutralCost
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Clusters

PerToken = Callable[[Float64[np.ndarray, " text"]], Float64[np.ndarray, " resample"]]
"""The mean per predicted token, in each resample of the texts, of what was summed over each."""
NeutralFigure = tuple[str, Float64[np.ndarray, " resample"], float]
"""A metric, its value in each resample and the least that it can be."""


class NeutralTextCost(Cost):
    """A cost on the task's neutral text."""

    reads_logits = True

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """The rows of the texts, on the same resamples; none where the task has no such text."""
        texts = self.task.neutral.get(split)
        if not texts:
            return []
        cost, dataset = context.neutral(texts, edit), DATASETS[split]
        drawn = Clusters(context.seed, {(dataset, "texts"): np.arange(len(texts))})
        tokens = drawn.mean(cost.tokens)
        detail = {"tokens": int(cost.tokens.sum())}
        about: dict[str, Any] = {"dataset": dataset, "n": len(texts), "detail": detail}
        return [
            Row.of(metric, drawn.estimate(values, within=(least, math.inf)), **about)
            for metric, values, least in self.figures(cost, lambda x: drawn.mean(x) / tokens)
        ]

    @abstractmethod
    def figures(self, cost: NeutralCost, per_token: PerToken) -> Iterator[NeutralFigure]:
        """What it measures of the texts."""


class Perplexity(NeutralTextCost):
    """Perplexity on neutral text; its ratio to the unedited model's is a cost above 1."""

    counts = "perplexity_ratio"
    better: ClassVar[Mapping[str, Way]] = {"perplexity": "lower"}
    default_budget = 0.01
    title = "perplexity ratio"

    def figures(self, cost: NeutralCost, per_token: PerToken) -> Iterator[NeutralFigure]:
        yield "perplexity", np.exp(per_token(cost.nll_edited)), 1
        yield "perplexity_ratio", np.exp(per_token(cost.nll_edited - cost.nll_unedited)), 0

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

    def figures(self, cost: NeutralCost, per_token: PerToken) -> Iterator[NeutralFigure]:
        yield "kl", per_token(cost.kl), 0
