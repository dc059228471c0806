"""The bootstrap draws whole clusters, repeats from its seed, and says when it knows nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from countergen_edit.errors import UserError
from countergen_edit.metrics.statistics import (
    RESAMPLES,
    adjusted,
    bootstrap_mean,
    estimate,
    resample,
    weighted_mean,
)


def test_every_resample_draws_as_many_clusters_as_there_are() -> None:
    weights = resample(7, 0, "a")
    assert weights.shape == (RESAMPLES + 1, 7)
    np.testing.assert_array_equal(weights.sum(axis=1), 7)
    np.testing.assert_array_equal(weights[0], 1)


def test_draws_depend_on_the_unit_and_on_nothing_else() -> None:
    np.testing.assert_array_equal(resample(5, 0, "a"), resample(5, 0, "a"))
    assert not np.array_equal(resample(5, 0, "a"), resample(5, 0, "b"))
    assert not np.array_equal(resample(5, 0, "a"), resample(5, 1, "a"))


def test_the_interval_of_a_mean_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).exponential(size=60)
    ours = bootstrap_mean(values, 0, "mean")
    theirs = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20000, rng=np.random.default_rng(1)
    ).confidence_interval
    # 1,000 resamples place a 95 % bound to within about a tenth of a standard error.
    tolerance = 0.3 * ours.standard_error
    assert abs(ours.lo - theirs.low) < tolerance
    assert abs(ours.hi - theirs.high) < tolerance
    assert ours.value == pytest.approx(values.mean())


def test_items_of_one_cluster_move_together() -> None:
    values = np.array([0.0, 0.0, 1.0, 1.0])
    clusters = np.array([0, 0, 1, 1])
    means = weighted_mean(values, clusters, resample(2, 0, "c"))
    assert set(np.round(means, 9)) == {0.0, 0.5, 1.0}


def test_a_single_cluster_has_no_interval_from_it_and_an_undefined_value_has_none() -> None:
    assert resample(1, 0, "one").tolist() == [[1.0]]
    alone = bootstrap_mean([0.5], 0, "one")
    assert alone.value == 0.5
    assert alone.columns == {"value": 0.5, "lo": None, "hi": None}
    assert not alone.starred
    nothing = estimate(np.array([np.nan, 1.0, 2.0]))
    assert np.isnan([nothing.lo, nothing.hi]).all()


def test_two_standard_errors_make_a_star() -> None:
    draws = np.random.default_rng(0).normal(1.0, 0.1, 1000)
    assert estimate(np.concatenate([[1.0], draws])).starred
    assert not estimate(np.concatenate([[0.1], draws - 0.9])).starred


@pytest.mark.parametrize("method", ["holm", "fdr_bh"])
def test_corrections_are_those_of_statsmodels(method: str) -> None:
    from statsmodels.stats.multitest import multipletests

    p = np.concatenate([np.random.default_rng(0).uniform(size=30) ** 3, [0.0, 1.0, 0.5, 0.5]])
    np.testing.assert_allclose(adjusted(p, method), multipletests(p, method=method)[1])
    assert adjusted([], method).size == 0


def test_an_unknown_correction_is_named() -> None:
    with pytest.raises(UserError, match="did you mean 'holm'"):
        adjusted([0.5], "holmes")
