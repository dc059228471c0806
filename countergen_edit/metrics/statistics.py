"""The clustered paired bootstrap behind every interval.

Templates and names are drawn with replacement, never single prompts, since prompts of one template
or name depend on each other. All statistics of a set use the same draws, so that differences
between edits are paired. Each kind of cluster brings a variance, scaled by K/(K - 1), as K clusters
drawn with replacement vary (K - 1)/K as much as K fresh ones; the interval is Student's with
Satterthwaite's degrees of freedom (Biometrics 2, 1946), extended by twice the bias of the draws,
which a mean of absolute values near 0 has.

In 400 to 500 simulated audits each, 95 % intervals covered 93.2 to 98.2 % with 4 to 20 templates,
89 to 94 % with 2 or 3 (`tests/metrics/test_statistics.py`).
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Int
from scipy.special import ndtri, stdtr, stdtrit
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from countergen_edit.core.seeds import generator

LEVEL = 0.95
TAIL = 1 - (1 - LEVEL) / 2
RESAMPLES = 1000
CONSTANT = 1e-9
"""Standard error of a share below which nothing varies but rounding."""
BLOCK_CELLS = 2**22
"""Most cells of a table at a time, so that memory does not grow with prompts."""
DETECTABLE = 2.8
"""Standard errors of a difference with a power of 80 %, two-sided at 5 %."""

Weights = Float64[np.ndarray, "_ _"]
"""How often each cluster (column) is drawn in each resample (row)."""
Resampled = Float64[np.ndarray, " resample"]


def finite(value: float) -> float | None:
    """A value as JSON has it: None where it is infinite or undefined."""
    return float(value) if math.isfinite(value) else None


@dataclass(frozen=True)
class Estimate:
    """A value with its interval and standard error."""

    value: float
    lo: float = math.nan
    hi: float = math.nan
    standard_error: float = math.nan

    @property
    def columns(self) -> dict[str, Any]:
        """Value and interval as a row has them: None where not finite."""
        ends = {"value": self.value, "lo": self.lo, "hi": self.hi}
        return {end: value if math.isfinite(value) else None for end, value in ends.items()}

    @property
    def starred(self) -> bool:
        """Whether two standard errors do not reach zero (CounterGen, Table 1)."""
        return abs(self.value) > 2 * self.standard_error

    @property
    def smallest(self) -> float | None:
        """The smallest detectable difference (Card et al. 2020); None without a standard error."""
        error = self.standard_error
        return DETECTABLE * error if error > 0 and math.isfinite(error) else None

    def p_of_none(self, clusters: int) -> float:
        """Student's two-sided P of no difference, of a mean over so many clusters."""
        return 2 * float(stdtr(clusters - 1, -abs(self.value) / self.standard_error))


def resample(count: int, seed: int, *unit: object, resamples: int = RESAMPLES) -> Weights:
    """How often each of `count` clusters is drawn; 1 in the first row."""
    if count == 1:
        return np.ones((1, 1))
    rng = generator(seed, "bootstrap", *unit)
    weights = np.ones((1 + resamples, count))
    for rows in portions(resamples, count):
        draws = weights[1:][rows]
        draws[:] = rng.multinomial(count, np.full(count, 1 / count), size=len(draws))
    return weights


def portions(rows: int, width: int) -> Iterator[slice]:
    """The rows of a table in portions of at most `BLOCK_CELLS` cells."""
    step = max(1, BLOCK_CELLS // width)
    return (slice(first, min(first + step, rows)) for first in range(0, rows, step))


def share_interval(successes: float, n: int) -> tuple[float, float]:
    """Clopper and Pearson's exact 95 % interval of a share (Biometrika 26, 1934).

    >>> share_interval(0, 4)[0], round(share_interval(0, 4)[1], 3)
    (0.0, 0.602)
    """
    lo, hi = proportion_confint(successes, n, alpha=1 - LEVEL, method="beta")
    return float(lo), float(hi)


def estimate(
    values: Resampled,
    *weights: Weights,
    within: tuple[float, float] = (-math.inf, math.inf),
    whole: float = 0.0,
) -> Estimate:
    """The value (the first) and the interval of a resampled statistic; NaN without resamples.

    Parameters
    ----------
    values : the statistic of the data, then of every resample; undefined ones are left out
    weights : of each kind of cluster; without any the interval is Gaussian, too narrow for few
    within : the range of the statistic
    whole : the range of a share (1, in percent 100); without variation, its interval is exact, of
        as many decisions as there are clusters
    """
    point, defined = float(values[0]), np.isfinite(values[1:])
    kinds = [w for w in weights if len(w) > 1]
    if defined.sum() < 2 or not np.isfinite(point) or (weights and not kinds):
        return Estimate(point)
    draws = values[1:][defined]
    if kinds:
        rows = slice(None) if defined.all() else defined  # no copy of all resamples
        parts = variance_parts(draws, [w[1:][rows] for w in kinds])
        total = float(parts.sum())
        spread = sum(v**2 / (w.shape[1] - 1) for v, w in zip(parts, kinds, strict=True))
        quantile = float(stdtrit(total**2 / spread, TAIL)) if spread > 0 else 0.0
    else:
        total, quantile = float(draws.var(ddof=1)), float(ndtri(TAIL))
    error = math.sqrt(total)
    if whole and kinds and error < CONSTANT * whole:
        fewest = min(w.shape[1] for w in kinds)
        lo, hi = share_interval(round(point / whole, 9) * fewest, fewest)
        return Estimate(point, whole * lo, whole * hi, 0.0)
    bias = float(draws.mean()) - point
    lo = max(point - quantile * error - 2 * max(bias, 0.0), within[0])
    hi = min(point + quantile * error - 2 * min(bias, 0.0), within[1])
    return Estimate(point, lo, hi, error)


def variance_parts(values: Resampled, weights: Sequence[Weights]) -> Float64[np.ndarray, " kind"]:
    """The variance of a statistic that each kind of cluster brings, scaled by K/(K - 1).

    The slopes of the statistic in the weights (its empirical influence, as in the infinitesimal
    jackknife) are found by least squares, less the noise in their squares. A kind with too many
    clusters for that gets the remaining variance; a remainder beyond all kinds is their interaction
    (Owen, Annals of Applied Statistics 1, 2007), which each kind's part already holds once.
    """
    parts = np.zeros(len(weights))
    by_size = sorted(range(len(weights)), key=lambda kind: weights[kind].shape[1])
    sizes = np.cumsum([weights[kind].shape[1] for kind in by_size])
    fitted = [kind for kind, end in zip(by_size, sizes, strict=True) if 2 * end <= len(values)]
    centred = values - values.mean()
    left, freedom = centred, len(values) - 1
    if fitted:
        x = np.concatenate([weights[kind] for kind in fitted], axis=1)
        x = x - x.mean(axis=0)
        slopes = np.linalg.lstsq(x, centred, rcond=None)[0]
        left = centred - x @ slopes
        freedom -= x.shape[1] - len(fitted)
        noise = float(left @ left) / freedom / len(values)
        ends = np.cumsum([weights[kind].shape[1] for kind in fitted])[:-1]
        for kind, slope in zip(fitted, np.split(slopes, ends), strict=True):
            # Weights of one kind sum to K, so that slopes matter only up to a constant, and in
            # multinomial draws Var(w) = I - 11'/K.
            count = len(slope)
            raw = float(np.sum((slope - slope.mean()) ** 2)) - (count - 1) * noise
            parts[kind] = max(raw, 0.0) * count / (count - 1)
    if len(fitted) < len(weights):
        count = weights[by_size[-1]].shape[1]
        parts[by_size[-1]] = float(left @ left) / freedom * count / (count - 1)
    return parts


def weighted_mean(
    values: Float64[np.ndarray, "*drawn item"],
    clusters: Int[np.ndarray, " item"],
    weights: Float64[np.ndarray, "#resample cluster"],
) -> Resampled:
    """Mean over items for each resample of clusters; a single row serves all."""
    values = np.atleast_2d(values)
    means = list[Resampled]()
    for rows in portions(max(len(values), len(weights)), len(clusters)):
        x, w = (table if len(table) == 1 else table[rows] for table in (values, weights))
        w = w[:, clusters]
        means.append(np.sum(x * w, axis=-1) / np.sum(w, axis=-1))
    return np.concatenate(means)


class Clusters:
    """Draws of the clusters that units stand in, of one kind or several crossed ones.

    Parameters
    ----------
    seed : of the run
    kinds : the name of each kind's draws -> the cluster of each unit; negative ones are not drawn
    """

    def __init__(self, seed: int, kinds: Mapping[Any, Int[np.ndarray, " unit"]]) -> None:
        self.of = [*kinds.values()]
        self.weights = [resample(int(of.max()) + 1, seed, *unit) for unit, of in kinds.items()]

    @cached_property
    def of_units(self) -> Float64[np.ndarray, "#resample unit"]:
        """How often each unit is drawn by all kinds together."""
        drawn = np.ones((1, 1))
        for weights, cluster in zip(self.weights, self.of, strict=True):
            drawn = drawn * np.where(cluster < 0, 1.0, weights[:, cluster])
        return drawn

    def mean(self, values: Float64[np.ndarray, " unit"]) -> Resampled:
        """Mean over the units in each resample; NaN where it holds none."""
        with np.errstate(invalid="ignore"):
            return weighted_mean(values, np.arange(len(values)), self.of_units)

    def ratio(
        self,
        values: Float64[np.ndarray, " unit"],
        units: Int[np.ndarray, " _"] | slice = slice(None),
    ) -> Resampled:
        """The same of some units, by one product of matrices."""
        weights = self.of_units[:, units]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(weights @ values[units] / weights.sum(axis=1))

    def estimate(self, draws: Resampled, **how: Any) -> Estimate:
        return estimate(draws, *self.weights, **how)


def bootstrap_mean(
    values: Sequence[float] | Float64[np.ndarray, " item"],
    seed: int,
    *unit: object,
    whole: float = 0.0,
) -> Estimate:
    """Mean of independent values with its bootstrap interval; `whole` as of `estimate`."""
    array = np.asarray(values, dtype=np.float64)
    drawn = Clusters(seed, {unit: np.arange(len(array))})
    return drawn.estimate(drawn.mean(array), whole=whole)


def adjusted(
    p_values: Sequence[float] | Float64[np.ndarray, " test"], method: str = "holm"
) -> Float64[np.ndarray, " test"]:
    """P-values adjusted for the number of tests of one table.

    `holm` bounds the chance of any false rejection, `fdr_bh` (Benjamini–Hochberg) the expected
    share of false ones.

    >>> adjusted([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not p.size:
        return p
    # It collects garbage first, most of a second where a model is in memory; none of it is here.
    gc.freeze()
    try:
        corrected: Float64[np.ndarray, " test"] = multipletests(p, method=method)[1]
    finally:
        gc.unfreeze()
    return corrected
