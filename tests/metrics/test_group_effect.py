"""The group effect against brute force, an independent test, and simulations with known truth."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test
from statsmodels.stats.power import TTestIndPower

from countergen_edit.metrics.r.effect_rows import DETECTABLE_EFFECT, effect_rows, removed
from countergen_edit.metrics.r.group_effect import GroupEffect
from tests.metrics.many_groups import scores_of as several

Array = np.ndarray


def scores_of(a, b, paraphrases=1, *, named=True):
    """Of `[person, item]` log-probabilities of two groups, template after template."""
    return several({"a": a, "b": b}, paraphrases, named=named)


def noise(rng, kind, people, items):
    """What people of one group differ by, of variance 1 an item."""
    if kind == "free":
        return rng.standard_normal((people, items))
    directions = np.random.default_rng(int(rng.integers(1 << 30))).standard_normal((3, items))
    directions /= np.sqrt((directions**2).mean(axis=1, keepdims=True))
    few = rng.standard_normal((people, 3)) @ directions / np.sqrt(3)
    return np.asarray(np.sqrt(0.6) * few + np.sqrt(0.4) * rng.standard_normal((people, items)))


def simulated(seed, people, spread, effect, kind, items=60):
    rng = np.random.default_rng(seed)
    d = rng.standard_normal(items)
    d *= effect / np.sqrt((d**2).mean())
    both = spread * noise(rng, kind, 2 * people, items)
    return scores_of(both[:people] + d / 2, both[people:] - d / 2)


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_the_squared_effect_is_the_mean_over_pairs_of_different_people(seed, people, paraphrases):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, people, 4 * paraphrases))
    pairs = list(permutations(range(people), 2))
    products = [(a[i] - b[k]) * (a[j] - b[m]) for (i, j), (k, m) in product(pairs, pairs)]
    expected = float(np.mean(products))
    assert GroupEffect(scores_of(a, b, paraphrases)).squared == pytest.approx(expected, abs=1e-12)


def test_the_p_value_is_that_of_an_independent_permutation_test():
    scores = simulated(3, 6, 1.0, 0.45, "few")

    log_p = scores.log_p.transpose(1, 2, 0).reshape(12, -1)

    def statistic(a, b):
        difference = log_p[a.astype(int)].mean(axis=0) - log_p[b.astype(int)].mean(axis=0)
        return float((difference**2).mean())

    judged = permutation_test(
        (np.arange(6), np.arange(6, 12)),
        statistic,
        vectorized=False,
        alternative="greater",
        n_resamples=5000,
        rng=np.random.default_rng(0),
    )
    own = GroupEffect(scores).p_value
    assert own == pytest.approx(judged.pvalue, abs=0.03)
    assert 0.02 < judged.pvalue < 0.6  # a case that could come out otherwise


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
    tests = [GroupEffect(simulated(s, people, 1.0, 0.0, "few"), s).p_value for s in range(400)]
    rejected = np.mean([p is not None and p <= 0.05 for p in tests])
    assert 0.02 <= rejected <= 0.085  # 0.05 within 2.9 standard errors


def test_the_people_needed_find_the_effect_four_times_in_five():
    effect = GroupEffect(simulated(11, 400, 3.0, 1.0, "few"))
    again = (simulated(11 + s, effect.people_needed, 3.0, 1.0, "few") for s in range(150))
    found = [GroupEffect(scores, s).p_value <= 0.05 for s, scores in enumerate(again)]
    assert 0.6 < np.mean(found) < 0.97
    assert GroupEffect(simulated(0, 5, 0.0, 0.0, "free")).people_needed is None


def test_the_within_group_null_is_the_mean_of_equal_groups():
    """The null of mean |R| does not depend on the difference between the groups."""
    rng = np.random.default_rng(5)
    spread = rng.normal(size=(2, 30, 60))
    equal = scores_of(*spread)
    apart = scores_of(spread[0] + 1.0, spread[1] - 1.0)
    nulls = [GroupEffect(scores).within_group_null for scores in (equal, apart)]
    assert nulls[0] == pytest.approx(nulls[1])
    a, b = np.exp(spread).mean(axis=1)
    shown = np.abs((a - b) / np.maximum(a, b)).mean()
    assert nulls[0] == pytest.approx(shown, rel=0.15)


def test_the_share_is_the_groups_part_of_what_separates_two_people():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4000, 30))
    effect = GroupEffect(scores_of(a + 1.0, b - 1.0))
    # The squared difference of two people: 2² of the group's, 1 + 1 of their own.
    assert effect.share == pytest.approx(4 / 6, abs=0.01)
    assert effect.z == pytest.approx(2 / np.sqrt(2 / 4000), rel=0.05)


@given(st.integers(0, 10**6), st.floats(-3, 3), st.integers(0, 3))
@settings(max_examples=10, deadline=None)
def test_what_all_people_share_and_their_order_change_nothing(seed, shift, roll):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 4, 6))
    plain = GroupEffect(scores_of(a, b))
    item = rng.normal(size=6) + shift
    moved = GroupEffect(scores_of(np.roll(a, roll, axis=0) + item, b + item))
    assert moved.squared == pytest.approx(plain.squared, abs=1e-9)
    assert moved.share == pytest.approx(plain.share, abs=1e-9)
    swapped = GroupEffect(scores_of(b, a))
    assert swapped.squared == pytest.approx(plain.squared, abs=1e-12)


def of_paraphrases(effects, seed):
    """20 items a template, of one effect each; people hardly differ."""
    rng = np.random.default_rng(seed)
    d = np.repeat(effects, 20)
    both = 0.05 * rng.standard_normal((2, 12, len(d)))
    return GroupEffect(scores_of(both[0] + d / 2, both[1] - d / 2, len(effects)), seed)


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
    scores = scores_of(a + 2, b, 4, named=False)
    effect = GroupEffect(scores)
    by_paraphrase = [
        GroupEffect(scores_of(a[:, i : i + 2] + 2, b[:, i : i + 2])).squared for i in range(0, 8, 2)
    ]
    assert effect.squared == pytest.approx(np.mean(by_paraphrase))
    assert effect.p_value < 0.01


def test_one_person_a_group_has_no_spread_and_no_test():
    a, b = np.random.default_rng(0).normal(size=(2, 1, 6))
    effect = GroupEffect(scores_of(a, b, 3))
    assert (effect.p_value, effect.within_group_null, effect.share, effect.z) == (None,) * 4
    assert effect.people_needed is None
    assert effect.squared == pytest.approx(((a - b) ** 2).mean())
    assert effect.estimate.lo < effect.estimate.hi  # over templates
    [row] = effect_rows([effect])
    assert "p" not in row.detail


def test_what_is_removed_is_paired_and_pooled_over_items():
    before = [simulated(s, 20, 0.5, 1.0, "few") for s in (1, 2)]
    after = [scores_of(*(x.log_p.transpose(1, 2, 0) * 0.5)) for x in before]
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
    return GroupEffect(scores_of(both[:people] + effect * d / 2, both[people:] - effect * d / 2))


@pytest.mark.parametrize("people", [4, 6])
def test_an_effect_of_the_detectable_size_is_significant_about_four_times_in_five(people):
    sizes = np.array([leaning(seed, people, 0.0).detectable(0.05) for seed in range(60)])

    def power(share):
        drawn = (leaning(1000 + i, people, share * x) for i, x in enumerate(np.tile(sizes, 2)))
        return float(np.mean([effect.p_value <= 0.05 for effect in drawn]))

    assert 0.65 < power(1.0) < 0.9
    assert power(0.4) < 0.35
    assert power(2.0) > 0.97


def test_the_detectable_size_is_that_of_a_t_test_and_none_where_no_size_or_any_will_do():
    a = np.arange(4.0)[:, None]
    size = TTestIndPower().solve_power(nobs1=4, alpha=2 / 70, power=0.8) * a.std(ddof=1)
    assert GroupEffect(scores_of(a, a)).detectable(0.05) == pytest.approx(size * 13 / 12, rel=1e-3)
    assert GroupEffect(scores_of(a, a)).detectable(0.02) is None
    for many in (1, 3, 9):
        assert leaning(0, many, 0.0).detectable(0.05) is None
    assert GroupEffect(scores_of(a, a + 1e-9, named=False)).detectable(0.05) is not None
    same = GroupEffect(scores_of(np.ones((4, 1)), np.zeros((4, 1))))
    assert same.detectable(0.05) == 0.0


def test_only_few_names_that_show_nothing_have_a_detectable_size_at_the_level_that_is_left():
    shown, not_shown = leaning(1, 8, 9.0), leaning(2, 8, 0.1)
    rows = effect_rows([shown, not_shown, not_shown], power=True)
    found = [row.value for row in rows if row.metric == DETECTABLE_EFFECT]
    assert found == [not_shown.detectable(0.025)] * 2
    assert DETECTABLE_EFFECT not in [row.metric for row in effect_rows([not_shown])]
