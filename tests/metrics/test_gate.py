"""A limit is held against intervals: what is beyond it passes rarely."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import norm
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from countergen_edit.core.seeds import generator
from countergen_edit.decisions.gate import checked, difference, overall, p_at
from countergen_edit.metrics.rows import Row

HALF = norm.ppf(0.975)
NUMBER = st.floats(-2, 2)
RUNS, SETS, LIMIT = 1500, 6, 0.3


def estimated(values):
    return [Row("x", v, lo=v - 0.1 * HALF, hi=v + 0.1 * HALF) for v in values.tolist()]


def verdicts(truth, better="lower", count=RUNS):
    errors = generator(0, "gate", *truth).normal(0, 0.1, (count, len(truth)))
    runs = (estimated(np.array(truth) + error) for error in errors)
    return [[check.verdict for check in checked(rows, LIMIT, better)] for rows in runs]


@given(
    ends=st.tuples(NUMBER, NUMBER, NUMBER),
    limit=NUMBER,
    better=st.sampled_from(["lower", "higher"]),
)
def test_one_set_is_decided_by_the_side_of_its_interval(ends, limit, better):
    lo, value, hi = sorted(ends)
    assume(value != limit)  # an estimate at the limit has P 1
    [check] = checked([Row("x", value, lo=lo, hi=hi)], limit, better)
    below, above = hi <= limit, lo > limit
    if better == "higher":
        below, above = hi < limit, lo >= limit
    expected = {(True, False): "lower", (False, True): "higher"}.get((below, above))
    assert check.verdict == {None: "cannot tell", better: "holds"}.get(expected, "fails")


def test_p_is_that_of_a_gaussian_estimate():
    for value in (-0.4, 0.1, 0.29, 0.7):
        [row] = estimated(np.array([value]))
        assert p_at(row, LIMIT) == pytest.approx(2 * norm.sf(abs(value - LIMIT) / 0.1))
    [row] = estimated(np.array([LIMIT]))
    assert p_at(row, LIMIT) == 1
    skewed = Row("x", 0.2, lo=0.15, hi=0.5)  # the half that faces the limit counts
    assert p_at(skewed, 0.35) == pytest.approx(2 * norm.sf(HALF / 2))
    assert p_at(skewed, 0.1) == pytest.approx(2 * norm.sf(HALF * 2))


def test_the_verdicts_of_all_sets_are_right_together_nineteen_times_in_twenty():
    """All true values are at the limit, so that every decision is wrong."""
    decided = [{*run} != {"cannot tell"} for run in verdicts([LIMIT] * SETS)]
    assert 0.03 < np.mean(decided) < 0.07  # of 1,500 runs 0.05 has a standard error of 0.006


def test_a_model_beyond_the_limit_on_any_set_hardly_ever_passes():
    for beyond in (1, SETS):
        truth = [LIMIT + 1e-9] * beyond + [-1.0] * (SETS - beyond)
        assert np.mean([{*run} == {"holds"} for run in verdicts(truth)]) < 0.035


def test_a_model_far_from_the_limit_is_told():
    for value, better, verdict in ((-0.5, "lower", "holds"), (1.5, "lower", "fails")):
        assert np.all(np.array(verdicts([value] * SETS, better, 100)) == verdict)
    assert np.all(np.array(verdicts([-0.5] * SETS, "higher", 100)) == "fails")


def test_more_sets_take_more_certainty_by_holms_steps():
    """By hand: P 0.02 and 0.04 hold together, 0.03 and 0.04 do not."""
    for p, verdict, p_adjusted in ((0.02, "holds", 0.04), (0.03, "cannot tell", 0.06)):
        values = LIMIT - 0.1 * norm.isf(np.array([p, 0.04]) / 2)
        checks = checked(estimated(values), LIMIT, "lower")
        assert [check.verdict for check in checks] == [verdict] * 2
        assert [check.p_adjusted for check in checks] == pytest.approx([p_adjusted] * 2)


def test_without_an_interval_only_an_estimate_decides():
    rows = [Row("x", 0.1), Row("x", 0.5), Row("x", None)]
    assert [check.verdict for check in checked(rows, LIMIT, "lower")] == ["cannot tell"] * 3
    checks = checked(rows, LIMIT, "lower", strict=False)
    assert [check.verdict for check in checks] == ["holds", "fails", "cannot tell"]
    assert overall(checks) == "fails"
    assert overall(checks[::2]) == "cannot tell"
    assert overall(checks[:1]) == "holds"


def test_what_does_not_vary_is_decided():
    exact = Row("agreement", 1.0, lo=1.0, hi=1.0)
    for limit, verdict in ((0.9, "holds"), (1.0, "holds"), (1.1, "fails")):
        assert checked([exact], limit, "higher")[0].verdict == verdict


@pytest.mark.parametrize(
    ("one", "two"), [((30, 80), (12, 70)), ((0, 20), (5, 40)), ((9, 10), (9, 10))]
)
def test_a_difference_has_newcombes_interval(one, two):
    """Of two shares with Wilson's intervals it is the same (Newcombe 1998)."""
    rows = []
    for count, n in (one, two):
        lo, hi = proportion_confint(count, n, method="wilson")
        rows.append(Row("x", count / n, lo=lo, hi=hi))
    row = difference(*rows)
    expected = confint_proportions_2indep(*one, *two, method="newcomb", correction=False)
    assert row.value == pytest.approx(one[0] / one[1] - two[0] / two[1])
    assert (row.lo, row.hi) == pytest.approx(expected)


def test_a_difference_is_the_paired_one_where_both_sides_have_an_interval():
    row, paired = Row("x", 0.5, lo=0.1, hi=0.9), Row("x_difference", 0.2, lo=0.19, hi=0.21)
    assert difference(row, replace(row, value=0.3), paired).lo == 0.19
    bare = replace(row, value=0.3, lo=None, hi=None)
    assert difference(row, bare, paired) == replace(row, value=0.2, lo=None, hi=None)
    assert difference(row, None, paired).value is None
