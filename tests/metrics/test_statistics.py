"""The bootstrap draws whole clusters, repeats from its seed, and says when it knows nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from countergen_edit.metrics.statistics import (
    RESAMPLES,
    adjusted,
    bootstrap_mean,
    estimate,
    resample,
    share_interval,
)


def test_every_resample_draws_as_many_clusters_as_there_are() -> None:
    weights = resample(7, 0, "a")
    assert weights.shape == (RESAMPLES + 1, 7)
    np.testing.assert_array_equal(weights.sum(axis=1), 7)
    np.testing.assert_array_equal(weights[0], 1)


def test_the_interval_of_a_mean_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).exponential(size=60)
    ours = bootstrap_mean(values, 0, "mean")
    theirs = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20000, rng=np.random.default_rng(1)
    ).confidence_interval
    # 1,000 resamples place a 95 % bound to within about a tenth of a standard error.
    tolerance = 0.3 * ours.standard_error
    assert (ours.lo, ours.hi) == pytest.approx((theirs.low, theirs.high), abs=tolerance)
    assert ours.value == pytest.approx(values.mean())


def test_a_single_cluster_has_no_interval_from_it_and_an_undefined_value_has_none() -> None:
    assert resample(1, 0, "one").tolist() == [[1.0]]
    alone = bootstrap_mean([0.5], 0, "one")
    assert alone.columns == {"value": 0.5, "lo": None, "hi": None}
    assert not alone.starred
    nothing = estimate(np.array([np.nan, 1.0, 2.0]))
    assert np.isnan([nothing.lo, nothing.hi]).all()


def test_two_standard_errors_make_a_star() -> None:
    draws = np.random.default_rng(0).normal(1.0, 0.1, 1000)
    assert estimate(np.concatenate([[1.0], draws])).starred
    assert not estimate(np.concatenate([[0.1], draws - 0.9])).starred


def holm(p: np.ndarray) -> list[float]:
    """Holm (1979): the smallest level at which the step-down test rejects each."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    steps = {i: (len(p) - rank) * p[i] for rank, i in enumerate(order)}
    return [min(1.0, max(steps[j] for j in order[: order.index(i) + 1])) for i in range(len(p))]


@pytest.mark.parametrize(
    ("method", "oracle"), [("holm", holm), ("fdr_bh", stats.false_discovery_control)]
)
def test_corrections_are_their_definitions(
    method: str, oracle: Callable[[np.ndarray], np.ndarray]
) -> None:
    p = np.concatenate([np.random.default_rng(0).uniform(size=30) ** 3, [0.0, 1.0, 0.5, 0.5]])
    np.testing.assert_allclose(adjusted(p, method), oracle(p), rtol=1e-14)
    assert adjusted([], method).size == 0


def tail(successes: int, n: int, p: float) -> float:
    """P of so many successes or more, term by term."""
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(successes, n + 1))


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_exact_interval_ends_where_either_tail_is_a_fortieth(counts: tuple[int, int]) -> None:
    k, n = counts
    lo, hi = share_interval(k, n)
    assert lo <= k / n <= hi
    assert (lo == 0) if k == 0 else tail(k, n, lo) == pytest.approx(0.025)
    assert (hi == 1) if k == n else 1 - tail(k + 1, n, hi) == pytest.approx(0.025)


@pytest.mark.parametrize("p", [0.02, 0.3, 0.95])
def test_the_exact_interval_holds_every_share_as_often_as_it_says(p: float) -> None:
    n = 12
    held = [share_interval(k, n)[0] <= p <= share_interval(k, n)[1] for k in range(n + 1)]
    assert stats.binom.pmf(np.flatnonzero(held), n, p).sum() >= 0.95


@pytest.mark.parametrize("whole", [1.0, 100.0])
def test_a_share_of_like_decisions_has_an_exact_interval(whole: float) -> None:
    """One that varies keeps its bootstrap."""
    for k in (0, 1):
        found = bootstrap_mean([k * whole] * 4, 0, "alike", whole=whole)
        ends = [whole * end for end in share_interval(4 * k, 4)]
        assert [found.lo, found.hi] == pytest.approx(ends)
        assert found.standard_error == 0
    mixed = [0.0, whole, whole, 0.0, whole]
    assert bootstrap_mean(mixed, 0, "m", whole=whole) == bootstrap_mean(mixed, 0, "m")


def test_a_share_over_two_kinds_counts_the_fewer_clusters() -> None:
    weights = resample(6, 0, "many"), resample(3, 0, "few")
    found = estimate(np.zeros(RESAMPLES + 1), *weights, within=(0, 1), whole=1)
    assert (found.lo, found.hi) == share_interval(0, 3)
