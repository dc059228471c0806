"""Draws of a group effect: what they are made of, and the interval that they give.

Comes in: draws, or the Gram matrix of residuals. Goes out: effects in nats, intervals.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from countergen_edit.metrics.statistics import LEVEL, RESAMPLES, Estimate

Draws = Float64[np.ndarray, " resample"]


def root(squared: Draws) -> Draws:
    """G from G²: nats; 0 where G² is not above 0."""
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def interval(value: float, drawn: Draws) -> Estimate:
    """A value with the middle 95 % of its draws; draws in which it is undefined are left out."""
    drawn = drawn[~np.isnan(drawn)]
    if not np.isfinite(value) or len(drawn) < RESAMPLES / 2:
        return Estimate(value, np.nan, np.nan, np.nan)
    lo, hi = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, min(float(lo), value), max(float(hi), value), float(drawn.std(ddof=1)))


def squares(gram: Float64[np.ndarray, "person person"], items: int) -> tuple[float, float]:
    """tr V² of one group's part V of the noise, and what it takes of the trace's own variance.

    Unbiased for Gaussian residuals (Srivastava, Journal of the Japan Statistical Society 35, 2005):
    few residuals span few directions and overstate it.
    """
    few, trace, raw = len(gram) - 1, float(np.trace(gram)), float((gram**2).sum())
    if trace <= 0:
        return 0.0, 0.0
    unbiased = few**2 / ((few - 1) * (few + 2)) * (raw - trace**2 / few) if few > 1 else raw
    squares = float(np.clip(unbiased, trace**2 / items, trace**2))
    return squares, squares / few
