"""Nominal 95 % intervals cover the truth in 93 to 97 % of simulated audits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from countergen_edit.metrics.r import mean_r, relative_difference
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import estimate, resample, variance_parts, weighted_mean
from tests.metrics.many_groups import scores_of

AUDITS, PEOPLE = 500, 10
# 500 audits place a rate of 95 % to within a standard error of 1 %; the seeds are fixed.
LOWEST, HIGHEST = 0.93, 0.97


def simulated(
    rng: np.random.Generator,
    bias: np.ndarray,
    templates: int,
    template_effect: float,
    spread: float,
) -> SetScores:
    """An audit whose log-odds of an output are its bias, a template's effect and two names'."""
    outputs = len(bias)
    lean = bias + rng.normal(0, template_effect, (templates, outputs))
    named = rng.normal(0, spread, (2, outputs, PEOPLE))
    log_p = -3 + np.stack([lean / 2, -lean / 2], axis=-1)[..., None]
    log_p = log_p + named.transpose(1, 0, 2)[None]
    log_p = log_p + rng.normal(0, spread / 2, log_p.shape)
    flat = log_p.reshape(-1, 2, PEOPLE).transpose(1, 2, 0)
    return scores_of(dict(zip(("female", "male"), flat, strict=True)), templates)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("templates", "template_effect", "name_effect"), [(4, 0.5, 0.2), (8, 0.05, 0.2)]
)
def test_intervals_of_r_and_of_mean_abs_r_cover(
    templates: int, template_effect: float, name_effect: float
) -> None:
    rng = np.random.default_rng(0)
    bias = rng.normal(0, 0.4, 5)
    # Of infinitely many templates and names: names then raise both sides alike.
    many = bias + rng.normal(0, template_effect, (200_000, 5))
    r = relative_difference(many, np.zeros_like(many))
    truth = (r.mean(), np.abs(r).mean())
    covered = np.zeros(2)
    for audit in range(AUDITS):
        found = mean_r(simulated(rng, bias, templates, template_effect, name_effect), audit)
        covered += [e.lo <= true <= e.hi for e, true in zip(found, truth, strict=True)]
    assert ((covered / AUDITS >= LOWEST) & (covered / AUDITS <= HIGHEST)).all(), covered / AUDITS


@pytest.mark.parametrize("clusters", [3, 5, 20])
def test_intervals_of_a_mean_over_few_clusters_cover(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    covered = 0
    for audit in range(2 * AUDITS):
        values = rng.normal(1.0, 1.0, clusters)
        weights = resample(clusters, audit, "clusters", resamples=300)
        e = estimate(weighted_mean(values, np.arange(clusters), weights), weights)
        covered += e.lo <= 1.0 <= e.hi
    assert LOWEST <= covered / (2 * AUDITS) <= HIGHEST


def test_the_interval_of_a_mean_is_students() -> None:
    values = np.random.default_rng(0).normal(size=6)
    weights = resample(6, 0, "student")
    e = estimate(weighted_mean(values, np.arange(6), weights), weights)
    expected = ttest_1samp(values, 0).confidence_interval()
    assert e.lo == pytest.approx(expected.low, rel=0.02)  # the bias of 1,000 draws is not quite 0
    assert e.hi == pytest.approx(expected.high, rel=0.02)


def test_variance_is_told_apart_by_kind_of_cluster() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 2.0, 5), rng.normal(0, 1.0, 30)
    drawn = [resample(5, 0, "a"), resample(30, 0, "b")]
    values = drawn[0] @ a / 5 + drawn[1] @ b / 30
    parts = variance_parts(values[1:], [w[1:] for w in drawn])
    # Linear in both: exactly the textbook's variances of two means.
    np.testing.assert_allclose(parts, [a.var(ddof=1) / 5, b.var(ddof=1) / 30], rtol=1e-6)


def test_more_clusters_than_draws_can_tell_apart_get_the_variance_left() -> None:
    a = np.random.default_rng(0).normal(0, 2.0, 2000)
    weights = resample(2000, 0, "many")
    [part] = variance_parts(weights[1:] @ a / 2000, [weights[1:]])
    assert part == pytest.approx(a.var(ddof=1) / 2000, rel=0.15)  # 1,000 draws: 4.5 % of a variance
