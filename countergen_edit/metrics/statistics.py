"""Uncertainty in one place: the clustered paired bootstrap behind every interval.

Prompts made from one template, or about one name, are not independent of each other. So templates
and names are what is drawn with replacement, never single prompts; the outputs that are compared
are fixed. Every statistic of one set is computed on the same draws, which makes differences
between edits paired.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from countergen_edit.seeds import generator

LEVEL = 0.95
RESAMPLES = 1000

Weights = Float64[np.ndarray, "resample cluster"]


@dataclass(frozen=True)
class Estimate:
    """A value with its interval and standard error."""

    value: float
    lo: float
    hi: float
    standard_error: float

    @property
    def columns(self) -> dict[str, Any]:
        """Value and interval as a row has them: what is not finite is None, as JSON wants it."""
        ends = {"value": self.value, "lo": self.lo, "hi": self.hi}
        return {end: value if math.isfinite(value) else None for end, value in ends.items()}

    @property
    def starred(self) -> bool:
        """Whether two standard errors do not reach zero (CounterGen, Table 1)."""
        return abs(self.value) > 2 * self.standard_error


def resample(count: int, seed: int, *unit: object, resamples: int = RESAMPLES) -> Weights:
    """How often each of `count` clusters is drawn in each resample; the first row draws all once.

    A single cluster cannot be resampled: there is the data itself and nothing else.
    """
    ones = np.ones((1, count))
    if count == 1:
        return ones
    draws = generator(seed, "bootstrap", *unit).multinomial(
        count, np.full(count, 1 / count), size=resamples
    )
    return np.concatenate([ones, draws])


def estimate(values: Float64[np.ndarray, " resample"]) -> Estimate:
    """Point estimate (the first value) and percentile interval of a resampled statistic.

    Resamples in which the statistic is undefined are left out. Where none is left, or nothing could
    be drawn, the interval is NaN: one observation says nothing about its own spread.
    """
    point, rest = float(values[0]), values[1:][np.isfinite(values[1:])]
    if rest.size < 2 or not np.isfinite(point):
        return Estimate(point, float("nan"), float("nan"), float("nan"))
    tail = (1 - LEVEL) / 2
    lo, hi = np.quantile(rest, [tail, 1 - tail])
    return Estimate(point, float(lo), float(hi), float(rest.std(ddof=1)))


def weighted_mean(
    values: Float64[np.ndarray, "*drawn item"],
    clusters: Int[np.ndarray, " item"],
    weights: Float64[np.ndarray, "#resample cluster"],
) -> Float64[np.ndarray, " resample"]:
    """Mean over items for each resample of the clusters they belong to.

    Values that were resampled themselves (by name) may meet a single cluster, and the other way
    round: one row then serves all resamples.
    """
    w = weights[:, clusters]
    means: Float64[np.ndarray, " resample"] = np.sum(values * w, axis=-1) / np.sum(w, axis=-1)
    return means


def bootstrap_mean(
    values: Sequence[float] | Float64[np.ndarray, " item"], seed: int, *unit: object
) -> Estimate:
    """Mean of independent values with its bootstrap interval."""
    array = np.asarray(values, dtype=np.float64)
    weights = resample(len(array), seed, *unit)
    return estimate(weighted_mean(array, np.arange(len(array)), weights))


def adjusted(
    p_values: Sequence[float] | Float64[np.ndarray, " test"], method: str = "holm"
) -> Float64[np.ndarray, " test"]:
    """P-values adjusted for the number of tests of one table.

    Args:
        p_values: one for each test.
        method: `holm` bounds the chance of any false rejection, `fdr_bh` (Benjamini–Hochberg) the
            expected share of false ones; or another name that statsmodels knows.
    """
    from statsmodels.stats.multitest import multipletests  # late: slow to import

    if not len(p_values):
        return np.zeros(0)
    corrected: Float64[np.ndarray, " test"] = multipletests(p_values, method=method)[1]
    return corrected
