"""The bootstrap draws whole clusters, repeats from its seed, and says when it knows nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import ttest_1samp

from countergen_edit.metrics.r.formula import mean_r, relative_difference
from countergen_edit.metrics.statistics import (
    RESAMPLES,
    adjusted,
    bootstrap_mean,
    estimate,
    resample,
    share_interval,
    variance_parts,
    weighted_mean,
)
from tests.metrics.many_groups import two_groups

AUDITS, PEOPLE = 500, 10
# 500 audits place a rate of 95 % to within a standard error of 1 %; the seeds are fixed.
LOWEST, HIGHEST = 0.93, 0.97


def test_the_interval_of_a_mean_agrees_with_scipy():
    values = np.random.default_rng(0).exponential(size=60)
    ours = bootstrap_mean(values, 0, "mean")
    theirs = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20000, rng=np.random.default_rng(1)
    ).confidence_interval
    # 1,000 resamples place a 95 % bound to within about a tenth of a standard error.
    tolerance = 0.3 * ours.standard_error
    assert (ours.lo, ours.hi) == pytest.approx((theirs.low, theirs.high), abs=tolerance)
    assert ours.value == pytest.approx(values.mean())


def test_a_single_cluster_has_no_interval_from_it_and_an_undefined_value_has_none():
    assert resample(1, 0, "one").tolist() == [[1.0]]
    alone = bootstrap_mean([0.5], 0, "one")
    assert alone.columns == {"value": 0.5, "lo": None, "hi": None}
    assert not alone.starred
    assert estimate(np.array([1.0, 0.9, 1.1])).starred  # two standard errors do not reach 0
    undefined = estimate(np.array([np.nan, 1.0, 2.0]))
    assert np.isnan([undefined.lo, undefined.hi]).all()


def holm(p):
    """Holm (1979): the smallest level at which the step-down test rejects each."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    steps = {i: (len(p) - rank) * p[i] for rank, i in enumerate(order)}
    return [min(1.0, max(steps[j] for j in order[: order.index(i) + 1])) for i in range(len(p))]


@pytest.mark.parametrize(
    ("method", "oracle"), [("holm", holm), ("fdr_bh", stats.false_discovery_control)]
)
def test_corrections_are_their_definitions(method, oracle):
    p = np.concatenate([np.random.default_rng(0).uniform(size=30) ** 3, [0.0, 1.0, 0.5, 0.5]])
    np.testing.assert_allclose(adjusted(p, method), oracle(p), rtol=1e-14)
    assert adjusted([], method).size == 0


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_exact_interval_ends_where_either_tail_is_a_fortieth(counts):
    k, n = counts
    lo, hi = share_interval(k, n)
    assert lo <= k / n <= hi
    assert (lo == 0) if k == 0 else stats.binom.sf(k - 1, n, lo) == pytest.approx(0.025)
    assert (hi == 1) if k == n else stats.binom.cdf(k, n, hi) == pytest.approx(0.025)


@pytest.mark.parametrize("whole", [1.0, 100.0])
def test_a_share_of_like_decisions_has_an_exact_interval(whole):
    """One that varies keeps its bootstrap."""
    for k in (0, 1):
        alike = bootstrap_mean([k * whole] * 4, 0, "alike", whole=whole)
        ends = [whole * end for end in share_interval(4 * k, 4)]
        assert [alike.lo, alike.hi] == pytest.approx(ends)
        assert alike.standard_error == 0
    mixed = [0.0, whole, whole, 0.0, whole]
    assert bootstrap_mean(mixed, 0, "m", whole=whole) == bootstrap_mean(mixed, 0, "m")


def test_a_share_over_two_kinds_counts_the_fewer_clusters():
    weights = resample(6, 0, "many"), resample(3, 0, "few")
    share = estimate(np.zeros(RESAMPLES + 1), *weights, within=(0, 1), whole=1)
    assert (share.lo, share.hi) == share_interval(0, 3)


def an_audit(rng, bias, templates, template_effect, spread):
    """An audit whose log-odds of an output are its bias, a template's effect and two names'."""
    outputs = len(bias)
    lean = bias + rng.normal(0, template_effect, (templates, outputs))
    of_names = rng.normal(0, spread, (2, outputs, PEOPLE)).transpose(1, 0, 2)
    log_p = np.stack([lean / 2, -lean / 2], axis=-1)[..., None] + of_names - 3
    log_p += rng.normal(0, spread / 2, log_p.shape)
    return two_groups(*log_p.reshape(-1, 2, PEOPLE).transpose(1, 2, 0), templates)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("templates", "template_effect", "name_effect"), [(4, 0.5, 0.2), (8, 0.05, 0.2)]
)
def test_intervals_of_r_and_of_mean_abs_r_cover(templates, template_effect, name_effect):
    rng = np.random.default_rng(0)
    bias = rng.normal(0, 0.4, 5)
    # Of infinitely many templates and names: names then raise both sides alike.
    many = bias + rng.normal(0, template_effect, (200_000, 5))
    r = relative_difference(many, np.zeros_like(many))
    truth = (r.mean(), np.abs(r).mean())
    covered = np.zeros(2)
    for audit in range(AUDITS):
        estimates = mean_r(an_audit(rng, bias, templates, template_effect, name_effect), audit)
        covered += [e.lo <= true <= e.hi for e, true in zip(estimates, truth, strict=True)]
    assert ((covered / AUDITS >= LOWEST) & (covered / AUDITS <= HIGHEST)).all(), covered / AUDITS


@pytest.mark.parametrize("clusters", [3, 5, 20])
def test_intervals_of_a_mean_over_few_clusters_cover(clusters):
    rng = np.random.default_rng(clusters)
    covered = 0
    for audit in range(2 * AUDITS):
        values = rng.normal(1.0, 1.0, clusters)
        weights = resample(clusters, audit, "clusters", resamples=300)
        e = estimate(weighted_mean(values, np.arange(clusters), weights), weights)
        covered += e.lo <= 1.0 <= e.hi
    assert LOWEST <= covered / (2 * AUDITS) <= HIGHEST


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(0).normal(size=6)
    e = bootstrap_mean(values, 0, "student")
    assert e.value == pytest.approx(values.mean())
    expected = ttest_1samp(values, 0).confidence_interval()
    assert e.lo == pytest.approx(expected.low, rel=0.02)  # the bias of 1,000 draws is not quite 0
    assert e.hi == pytest.approx(expected.high, rel=0.02)


def test_variance_is_told_apart_by_kind_of_cluster():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 2.0, 5), rng.normal(0, 1.0, 30)
    drawn = [resample(5, 0, "a"), resample(30, 0, "b")]
    values = drawn[0] @ a / 5 + drawn[1] @ b / 30
    parts = variance_parts(values[1:], [w[1:] for w in drawn])
    # Linear in both: exactly the textbook's variances of two means.
    np.testing.assert_allclose(parts, [a.var(ddof=1) / 5, b.var(ddof=1) / 30], rtol=1e-6)


def test_more_clusters_than_draws_can_tell_apart_get_the_variance_left():
    a = np.random.default_rng(0).normal(0, 2.0, 2000)
    weights = resample(2000, 0, "many")
    [part] = variance_parts(weights[1:] @ a / 2000, [weights[1:]])
    assert part == pytest.approx(a.var(ddof=1) / 2000, rel=0.15)  # 1,000 draws: 4.5 % of a variance
