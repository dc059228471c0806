"""Paired statistics of items hold against definitions, other libraries and planted truths."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import contingency, ttest_rel

from countergen_edit.metrics.items import MCNEMAR, PAIRED_T, Item, change, item_scores, mean
from countergen_edit.metrics.statistics import DETECTABLE


def scores(values):
    return item_scores(Item("t", "m", str(n), float(v)) for n, v in enumerate(values))["t", "m"]


def changed(before, after):
    return change(scores(before), scores(after))


def test_scores_of_0_and_1_are_tested_by_the_items_that_changed():
    """Of 20 items 6 got better and 1 worse: P = 2 · (C(7,0) + C(7,1)) / 2⁷ = 16/128."""
    difference, found = changed([0] * 6 + [1] * 8 + [0] * 6, [1] * 6 + [1] * 7 + [0] * 7)
    assert (found["method"], found["before"], found["after"]) == (MCNEMAR, 0.4, 0.65)
    assert found["p"] == pytest.approx(16 / 128)
    # (6+1)/22 and (1+1)/22: the difference of both is 5/22, its variance (9/22 - (5/22)²)/22.
    error = math.sqrt((9 / 22 - (5 / 22) ** 2) / 22)
    ends = 5 / 22 - 1.959964 * error, 5 / 22 + 1.959964 * error
    assert (difference.lo, difference.hi) == pytest.approx(ends, abs=1e-6)
    assert difference.value == pytest.approx(0.25)
    assert found["smallest"] == pytest.approx(DETECTABLE * error)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_mcnemars_p_is_that_of_statsmodels(pairs):
    from statsmodels.stats.contingency_tables import mcnemar

    before, after = (np.array(side, float) for side in zip(*pairs, strict=True))
    table = contingency.crosstab(before, after, levels=([0, 1], [0, 1])).count
    difference, found = changed([*before], [*after])
    assert found["p"] == pytest.approx(min(1.0, float(mcnemar(table, exact=True).pvalue)))
    assert difference.lo <= difference.value <= difference.hi
    assert difference.lo < difference.hi  # shares that did not change are not certain


def test_other_scores_are_tested_by_students_paired_t():
    rng = np.random.default_rng(0)
    before = rng.normal(size=40)
    after = before + rng.normal(0.3, 1, size=40)
    (difference, found), theirs = changed([*before], [*after]), ttest_rel(after, before)
    assert found["method"] == PAIRED_T
    assert found["p"] == pytest.approx(float(theirs.pvalue))
    assert (difference.lo, difference.hi) == pytest.approx((*theirs.confidence_interval(0.95),))
    assert found["smallest"] == pytest.approx(DETECTABLE * stats.sem(after - before))


@pytest.mark.parametrize(
    ("before", "after"),
    [([0.5], [0.7]), ([0.1, 0.2, 0.3], [0.2, 0.3, 0.4]), ([0.0, 0.5], [0.0, 0.5])],
    ids=["one item", "all alike", "no change"],
)
def test_where_nothing_can_be_said_nothing_is(before, after):
    difference, found = changed(before, after)
    assert found["p"] is found["smallest"] is None
    assert math.isnan(difference.lo)
    assert difference.value == pytest.approx(found["after"] - found["before"])


def test_an_item_that_stands_twice_counts_once_and_one_without_a_score_not_at_all():
    items = [Item("t", "m", i, v) for i, v in [("a", 1), ("a", 0), ("b", 1), ("c", math.nan)]]
    found = item_scores([*items, Item("t", "other", "a", 3.0)])
    assert found["t", "m"].values == {"a": 0.5, "b": 1.0}
    assert (found["t", "m"].repeated, found["t", "m"].unscored) == (1, 1)
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
    every = changed(before, after), changed(after, before), changed(*zip(*shuffled, strict=True))
    (difference, found), (turned, turned_test), (other, other_test) = every
    assert other.value == pytest.approx(difference.value, abs=1e-12)
    assert turned.value == pytest.approx(-difference.value, abs=1e-12)
    if None not in (found["p"], other_test["p"], turned_test["p"]):
        assert other_test["p"] == pytest.approx(found["p"], rel=1e-6)
        assert turned_test["p"] == pytest.approx(found["p"], rel=1e-6)
        assert turned.lo == pytest.approx(-difference.hi, rel=1e-6, abs=1e-9)


def test_means_of_shares_stay_within_0_and_1():
    found = mean(scores([1, 1, 0, 1]))
    assert found.value == 0.75
    assert 0 <= found.lo < 0.75 < found.hi <= 1
    assert mean(scores([0.0] * 20)).hi == pytest.approx(0.1611, abs=1e-3)  # Wilson: z²/(n + z²)


@pytest.mark.slow
def test_intervals_cover_the_truth_and_what_is_detectable_is_found():
    """400 sets of 120 items, whose changes are planted at the detectable size."""
    rng = np.random.default_rng(2)
    covered, found = [], []
    truth = DETECTABLE * math.sqrt(1 / 120)
    for _ in range(400):
        got, test = changed([0.0] * 120, [*(truth + rng.normal(0, 1, size=120))])
        covered.append(got.lo <= truth <= got.hi)
        found.append(test["p"] <= 0.05)
    assert 0.92 <= np.mean(covered) <= 0.98
    assert 0.74 <= np.mean(found) <= 0.86
