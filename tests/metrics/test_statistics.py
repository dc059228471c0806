"""The bootstrap draws whole clusters, repeats from its seed, and says when it knows nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from countergen_edit.metrics.statistics import (
    RESAMPLES,
    adjusted,
    bootstrap_mean,
    estimate,
    resample,
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
