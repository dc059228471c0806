"""The group effect against brute force, SciPy, and simulations with known truth."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test
from statsmodels.stats.power import TTestIndPower

from countergen_edit.metrics.r.effect_rows import DETECTABLE_EFFECT, effect_rows, removed
from countergen_edit.metrics.r.group_effect import GroupEffect
from tests.metrics.many_groups import two_groups
from tests.metrics.small import rows_of


def noise(rng, kind, people, items):
    """What people of one group differ by, of variance 1 an item."""
    if kind == "free":
        return rng.standard_normal((people, items))
    directions = np.random.default_rng(int(rng.integers(1 << 30))).standard_normal((3, items))
    directions /= np.sqrt((directions**2).mean(axis=1, keepdims=True))
    few = rng.standard_normal((people, 3)) @ directions / np.sqrt(3)
    return np.sqrt(0.6) * few + np.sqrt(0.4) * rng.standard_normal((people, items))


def simulated(seed, people, spread, effect, kind, items=60):
    rng = np.random.default_rng(seed)
    d = rng.standard_normal(items)
    d *= effect / np.sqrt((d**2).mean())
    both = spread * noise(rng, kind, 2 * people, items)
    return two_groups(both[:people] + d / 2, both[people:] - d / 2)


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_the_squared_effect_is_the_mean_over_pairs_of_different_people(seed, people, paraphrases):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, people, 4 * paraphrases))
    pairs = [*permutations(range(people), 2)]
    products = [(a[i] - b[k]) * (a[j] - b[m]) for (i, j), (k, m) in product(pairs, pairs)]
    squared = GroupEffect(two_groups(a, b, paraphrases)).squared
    assert squared == pytest.approx(np.mean(products), abs=1e-12)


def test_the_p_value_is_that_of_an_independent_permutation_test():
    scores = simulated(3, 6, 1.0, 0.45, "few")
    log_p = scores.log_p.transpose(1, 2, 0).reshape(12, -1)

    def statistic(*sides):
        a, b = (log_p[side.astype(int)].mean(axis=0) for side in sides)
        return ((a - b) ** 2).mean()

    test = permutation_test(
        (np.arange(6), np.arange(6, 12)),
        statistic,
        vectorized=False,
        alternative="greater",
        n_resamples=5000,
        rng=np.random.default_rng(0),
    )
    assert GroupEffect(scores).p_value == pytest.approx(test.pvalue, abs=0.03)
    assert 0.02 < test.pvalue < 0.6  # a case that could come out otherwise


@pytest.mark.parametrize("kind", ["free", "few"])
@pytest.mark.parametrize(("people", "spread"), [(5, 1.0), (10, 3.0), (40, 1.0)])
def test_simulated_effects_are_unbiased_and_covered(kind, people, spread):
    effects = [GroupEffect(simulated(s, people, spread, 1.0, kind), s) for s in range(200)]
    squared = np.array([effect.squared for effect in effects])
    error = squared.std() / np.sqrt(len(squared))
    assert abs(squared.mean() - 1) < 3 * error
    covered = np.mean([e.estimate.lo <= 1 <= e.estimate.hi for e in effects])
    assert covered >= 0.90  # 200 draws of a share of 0.95 lie above 0.90 in 99 of 100 cases


@pytest.mark.parametrize("people", [5, 20])
def test_the_level_holds_where_names_spread_and_groups_do_not_differ(people):
    p = [GroupEffect(simulated(s, people, 1.0, 0.0, "few"), s).p_value for s in range(400)]
    assert 0.02 <= np.mean(np.array(p) <= 0.05) <= 0.085  # 0.05 within 2.9 standard errors


def test_the_people_needed_find_the_effect_four_times_in_five():
    effect = GroupEffect(simulated(11, 400, 3.0, 1.0, "few"))
    again = (simulated(11 + s, effect.people_needed, 3.0, 1.0, "few") for s in range(150))
    significant = [GroupEffect(scores, s).p_value <= 0.05 for s, scores in enumerate(again)]
    assert 0.6 < np.mean(significant) < 0.97
    assert GroupEffect(simulated(0, 5, 0.0, 0.0, "free")).people_needed is None


def test_the_within_group_null_is_the_mean_of_equal_groups():
    """The null of mean |R| does not depend on the difference between the groups."""
    rng = np.random.default_rng(5)
    spread = rng.normal(size=(2, 30, 60))
    equal, apart = two_groups(*spread), two_groups(spread[0] + 1.0, spread[1] - 1.0)
    null = GroupEffect(equal).within_group_null
    assert null == pytest.approx(GroupEffect(apart).within_group_null)
    a, b = np.exp(spread).mean(axis=1)
    assert null == pytest.approx(np.abs((a - b) / np.maximum(a, b)).mean(), rel=0.15)


def test_the_share_is_the_groups_part_of_what_separates_two_people():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4000, 30))
    effect = GroupEffect(two_groups(a + 1.0, b - 1.0))
    # The squared difference of two people: 2² of the group's, 1 + 1 of their own.
    assert effect.share == pytest.approx(4 / 6, abs=0.01)
    assert effect.z == pytest.approx(2 / np.sqrt(2 / 4000), rel=0.05)


@given(st.integers(0, 10**6), st.floats(-3, 3), st.integers(0, 3))
@settings(max_examples=10, deadline=None)
def test_what_all_people_share_and_their_order_change_nothing(seed, shift, roll):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 4, 6))
    plain = GroupEffect(two_groups(a, b))
    item = rng.normal(size=6) + shift
    moved = GroupEffect(two_groups(np.roll(a, roll, axis=0) + item, b + item))
    assert moved.squared == pytest.approx(plain.squared, abs=1e-9)
    assert moved.share == pytest.approx(plain.share, abs=1e-9)
    swapped = GroupEffect(two_groups(b, a))
    assert swapped.squared == pytest.approx(plain.squared, abs=1e-12)


def of_paraphrases(effects, seed):
    """20 items a template, of one effect each; people hardly differ."""
    rng = np.random.default_rng(seed)
    d = np.repeat(effects, 20)
    a, b = 0.05 * rng.standard_normal((2, 12, len(d)))
    return GroupEffect(two_groups(a + d / 2, b - d / 2, len(effects)), seed)


@pytest.mark.parametrize(("paraphrases", "least"), [(3, 0.83), (8, 0.86)])
def test_the_effect_over_all_paraphrases_is_covered(paraphrases, least):
    """Effects uniform from 0.2 to 1.2; 91 to 93 % in 20,000 simulations without people."""
    truth = np.sqrt((1.2**3 - 0.2**3) / 3)
    draws = np.random.default_rng(2).uniform(0.2, 1.2, (200, paraphrases))
    estimates = [of_paraphrases(effects, seed).estimate for seed, effects in enumerate(draws)]
    assert np.mean([e.lo <= truth <= e.hi for e in estimates]) >= least


def test_prompts_with_people_of_their_own_are_tested_prompt_by_prompt():
    """Names that no two prompts share: residuals and deals stay within a prompt."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 8))
    scores = two_groups(a + 2, b, 4, named=False)
    effect = GroupEffect(scores)
    of_prompts = zip(np.split(a + 2, 4, axis=1), np.split(b, 4, axis=1), strict=True)
    squared = [GroupEffect(two_groups(*prompt)).squared for prompt in of_prompts]
    assert effect.squared == pytest.approx(np.mean(squared))
    assert effect.p_value < 0.01


def test_one_person_a_group_has_no_spread_and_no_test():
    a, b = np.random.default_rng(0).normal(size=(2, 1, 6))
    effect = GroupEffect(two_groups(a, b, 3))
    assert (effect.p_value, effect.within_group_null, effect.share, effect.z) == (None,) * 4
    assert effect.people_needed is None
    assert effect.squared == pytest.approx(((a - b) ** 2).mean())
    assert effect.estimate.lo < effect.estimate.hi  # over templates
    [row] = effect_rows([effect])
    assert "p" not in row.detail


def test_what_is_removed_is_paired_and_pooled_over_items():
    before = [simulated(s, 20, 0.5, 1.0, "few") for s in (1, 2)]
    after = [two_groups(*(x.log_p.transpose(1, 2, 0) * 0.5)) for x in before]
    gone = removed([GroupEffect(x) for x in before], [GroupEffect(x) for x in after])
    # Half of every log-probability is half of G in every draw: nothing is uncertain.
    assert (gone.value, gone.lo, gone.hi) == pytest.approx((0.5, 0.5, 0.5), abs=1e-6)
    none = GroupEffect(simulated(0, 5, 0.0, 0.0, "free"))
    assert np.isnan(removed([none], [none]).value)


def leaning(seed, people, effect):
    """Names that lean, and groups that differ, in one direction."""
    rng = np.random.default_rng(seed)
    d = np.linspace(-1, 1, 12) / np.sqrt((np.linspace(-1, 1, 12) ** 2).mean())
    both = rng.standard_normal((2 * people, 1)) * d + 0.3 * rng.standard_normal((2 * people, 12))
    a, b = both[:people] + effect * d / 2, both[people:] - effect * d / 2
    return GroupEffect(two_groups(a, b))


@pytest.mark.parametrize("people", [4, 6])
def test_power_at_the_detectable_size_is_four_fifths(people):
    sizes = np.array([leaning(seed, people, 0.0).detectable(0.05) for seed in range(60)])

    def power(share):
        drawn = (leaning(1000 + i, people, share * x) for i, x in enumerate(np.tile(sizes, 2)))
        return float(np.mean([effect.p_value <= 0.05 for effect in drawn]))

    assert 0.65 < power(1.0) < 0.9
    assert power(0.4) < 0.35
    assert power(2.0) > 0.97


def test_the_detectable_size_is_that_of_a_t_test():
    a = np.arange(4.0)[:, None]
    size = TTestIndPower().solve_power(nobs1=4, alpha=2 / 70, power=0.8) * a.std(ddof=1)
    assert GroupEffect(two_groups(a, a)).detectable(0.05) == pytest.approx(size * 13 / 12, rel=1e-3)
    assert GroupEffect(two_groups(a, a)).detectable(0.02) is None
    for many in (1, 3, 9):
        assert leaning(0, many, 0.0).detectable(0.05) is None
    assert GroupEffect(two_groups(a, a + 1e-9, named=False)).detectable(0.05) is not None
    same = GroupEffect(two_groups(np.ones((4, 1)), np.zeros((4, 1))))
    assert same.detectable(0.05) == 0.0


def test_only_few_names_that_show_nothing_have_a_detectable_size():
    shown, not_shown = leaning(1, 8, 9.0), leaning(2, 8, 0.1)
    rows = effect_rows([shown, not_shown, not_shown], power=True)
    sizes = [row.value for row in rows_of(rows, DETECTABLE_EFFECT)]
    assert sizes == [not_shown.detectable(0.025)] * 2
    assert rows_of(effect_rows([not_shown]), DETECTABLE_EFFECT) == []
