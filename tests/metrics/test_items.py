"""Paired statistics of items hold against definitions, other libraries and planted truths."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import contingency, ttest_rel
from statsmodels.stats.contingency_tables import mcnemar

from countergen_edit.metrics.items import MCNEMAR, PAIRED_T, Item, change, item_scores, mean
from countergen_edit.metrics.statistics import DETECTABLE


def scores(values):
    return item_scores(Item("t", "m", str(n), float(v)) for n, v in enumerate(values))["t", "m"]


def changed(before, after):
    return change(scores(before), scores(after))


def test_scores_of_0_and_1_are_tested_by_the_items_that_changed():
    """Of 20 items 6 got better and 1 worse: P = 2 · (C(7,0) + C(7,1)) / 2⁷ = 16/128."""
    difference, test = changed([0] * 6 + [1] * 8 + [0] * 6, [1] * 6 + [1] * 7 + [0] * 7)
    assert (test["method"], test["before"], test["after"]) == (MCNEMAR, 0.4, 0.65)
    assert test["p"] == pytest.approx(16 / 128)
    # (6+1)/22 and (1+1)/22: the difference of both is 5/22, its variance (9/22 - (5/22)²)/22.
    error = math.sqrt((9 / 22 - (5 / 22) ** 2) / 22)
    ends = 5 / 22 - 1.959964 * error, 5 / 22 + 1.959964 * error
    assert (difference.lo, difference.hi) == pytest.approx(ends, abs=1e-6)
    assert difference.value == pytest.approx(0.25)
    assert test["smallest"] == pytest.approx(DETECTABLE * error)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_mcnemars_p_is_that_of_statsmodels(pairs):
    before, after = (np.array(side, float) for side in zip(*pairs, strict=True))
    table = contingency.crosstab(before, after, levels=([0, 1], [0, 1])).count
    difference, test = changed(before, after)
    assert test["p"] == pytest.approx(min(1.0, mcnemar(table, exact=True).pvalue))
    assert difference.lo <= difference.value <= difference.hi
    assert difference.lo < difference.hi  # shares that did not change are not certain


def test_other_scores_are_tested_by_students_paired_t():
    rng = np.random.default_rng(0)
    before = rng.normal(size=40)
    after = before + rng.normal(0.3, 1, size=40)
    (difference, test), theirs = changed(before, after), ttest_rel(after, before)
    assert test["method"] == PAIRED_T
    assert test["p"] == pytest.approx(theirs.pvalue)
    assert (difference.lo, difference.hi) == pytest.approx((*theirs.confidence_interval(0.95),))
    assert test["smallest"] == pytest.approx(DETECTABLE * stats.sem(after - before))


@pytest.mark.parametrize(
    ("before", "after"),
    [([0.5], [0.7]), ([0.1, 0.2, 0.3], [0.2, 0.3, 0.4]), ([0.0, 0.5], [0.0, 0.5])],
    ids=["one item", "all alike", "no change"],
)
def test_where_nothing_can_be_said_nothing_is(before, after):
    difference, test = changed(before, after)
    assert test["p"] is test["smallest"] is None
    assert math.isnan(difference.lo)
    assert difference.value == pytest.approx(test["after"] - test["before"])


def test_a_repeated_item_counts_once_and_an_unscored_one_not_at_all():
    items = [Item("t", "m", i, v) for i, v in [("a", 1), ("a", 0), ("b", 1), ("c", math.nan)]]
    of_metric = item_scores([*items, Item("t", "other", "a", 3.0)])["t", "m"]
    assert of_metric.values == {"a": 0.5, "b": 1.0}
    assert (of_metric.repeated, of_metric.unscored) == (1, 1)
    _, paired = change(scores([0, 1, 1]), scores([1, 0]))  # of which both have two
    assert (paired["samples"], paired["before"], paired["after"]) == (2, 0.5, 0.5)


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=30),
    st.randoms(use_true_random=False),
)
def test_order_does_not_matter_and_sides_turn_the_sign(pairs, random):
    shuffled = [*pairs]
    random.shuffle(shuffled)
    before, after = zip(*pairs, strict=True)
    difference, test = changed(before, after)
    turned, turned_test = changed(after, before)
    other, other_test = changed(*zip(*shuffled, strict=True))
    assert other.value == pytest.approx(difference.value, abs=1e-12)
    assert turned.value == pytest.approx(-difference.value, abs=1e-12)
    ps = [turned_test["p"], other_test["p"]]
    if None not in (test["p"], *ps):
        assert ps == pytest.approx([test["p"]] * 2, rel=1e-6)
        assert turned.lo == pytest.approx(-difference.hi, rel=1e-6, abs=1e-9)


def test_means_of_shares_stay_within_0_and_1():
    share = mean(scores([1, 1, 0, 1]))
    assert share.value == 0.75
    assert 0 <= share.lo < 0.75 < share.hi <= 1
    assert mean(scores([0.0] * 20)).hi == pytest.approx(0.1611, abs=1e-3)  # Wilson: z²/(n + z²)


@pytest.mark.slow
def test_intervals_cover_the_truth_and_what_is_detectable_is_found():
    """400 sets of 120 items, whose changes are planted at the detectable size."""
    rng = np.random.default_rng(2)
    covered, significant = [], []
    truth = DETECTABLE * math.sqrt(1 / 120)
    for _ in range(400):
        difference, test = changed([0.0] * 120, truth + rng.normal(0, 1, size=120))
        covered.append(difference.lo <= truth <= difference.hi)
        significant.append(test["p"] <= 0.05)
    assert 0.92 <= np.mean(covered) <= 0.98
    assert 0.74 <= np.mean(significant) <= 0.86
