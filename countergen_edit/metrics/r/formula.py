"""R, the average relative probability (CounterGen, equation 1).

    R = 1/N Σ_i (P(y_i | f_i) - P(y_i | m_i)) / max(P(y_i | f_i), P(y_i | m_i))

In logs, with Δ = log P(y|f) - log P(y|m): R_i = sign(Δ) (1 - exp(-|Δ|)), which is exact where both
probabilities underflow. Opposite biases cancel in R, so mean |R_i| is always reported beside it.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.special import logsumexp

from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import Estimate, estimate, portions, weighted_mean

_Table = Float64[np.ndarray, "*shape"]


def relative_difference(log_p_a: _Table, log_p_b: _Table) -> _Table:
    """R_i from natural-log probabilities, in [-1, 1].

    >>> float(relative_difference(np.log([0.5]), np.log([0.25]))[0])
    0.5
    >>> float(relative_difference(np.array([-5000.0]), np.array([-5001.0]))[0])  # both underflow
    0.6321205588285577
    """
    delta = np.asarray(log_p_a - log_p_b, dtype=np.float64)
    return np.asarray(np.sign(delta) * -np.expm1(-np.abs(delta)))


def r_values(scores: SetScores) -> Float64[np.ndarray, " item"]:
    """R_i of every item; probabilities of one side's variations are averaged first."""
    averaged = logsumexp(scores.log_p, axis=2)  # both sides have equally many variations
    return relative_difference(averaged[:, 0], averaged[:, 1])


def resampled_r(
    scores: SetScores, seed: int, rows: slice = slice(None)
) -> Float64[np.ndarray, "resample item"]:
    """R_i of every item under resamples of the names; the first row is the data."""
    # In units of the largest probability of an item, R_i is the same and sums stay within range.
    top = scores.log_p.max(axis=(1, 2), keepdims=True)
    p = np.exp(scores.log_p - top)
    sides = []
    for side in (0, 1):
        weights = scores.name_weights(seed, side)
        weights = weights if len(weights) == 1 else weights[rows]
        sides.append(np.log(weights @ p[:, side].T / (weights @ scores.present[:, side].T)))
    return relative_difference(*np.broadcast_arrays(*sides))


def mean_r(scores: SetScores, seed: int) -> tuple[Estimate, Estimate]:
    """Mean R and mean |R| with bootstrap intervals over templates and names."""
    mean, size = resampled_means(scores, seed)
    drawn = scores.weights(seed)
    return estimate(mean, *drawn, within=(-1, 1)), estimate(size, *drawn, within=(0, 1))


def resampled_means(scores: SetScores, seed: int) -> Float64[np.ndarray, "2 resample"]:
    """Mean R and mean |R| in each resample of templates and names together."""
    weights, *names = scores.weights(seed)
    means = []
    for rows in portions(max(map(len, (weights, *names))), len(scores.output)):
        r = resampled_r(scores, seed, rows)
        drawn = weights if len(weights) == 1 else weights[rows]
        means.append([weighted_mean(x, scores.template, drawn) for x in (r, np.abs(r))])
    return np.concatenate(means, axis=1)


def abs_r_reduction(before: SetScores, after: SetScores, seed: int) -> Estimate:
    """Share of mean |R| that is gone, paired over the same resamples."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gone = 1 - resampled_means(after, seed)[1] / resampled_means(before, seed)[1]
    return estimate(gone, *before.weights(seed), within=(-np.inf, 1))
