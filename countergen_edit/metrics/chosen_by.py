"""The bias that edits are chosen by: a run's own, or one that is measured for the choice alone."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.metrics.base import METRICS, Metric

DEFAULT_BIAS = "r"
"""The bias that edits are chosen by where a run measures none that can be."""


def bias_of(metrics: Sequence[Metric]) -> Metric | None:
    """The bias that edits are chosen by: the first of the metrics that says what is removed."""
    return next((m for m in metrics if type(m).removed is not Metric.removed), None)


def default_bias() -> Metric:
    """The bias that edits are chosen by where a run measures none that can be."""
    bias: Metric = METRICS.make(DEFAULT_BIAS)
    return bias
