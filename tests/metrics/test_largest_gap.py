"""Every pair of several groups, and the largest gap among them."""

from itertools import combinations, permutations, product

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from countergen_edit.metrics.r.effect_rows import (
    bands,
    effect_rows,
    effects_of,
    largest_gap,
    omnibus_p,
    r_rows,
    rows_of_all_groups,
)
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.rows import GROUPS
from countergen_edit.metrics.scored_texts import read, write_scored_texts
from countergen_edit.metrics.scored_texts import scores_of as scores_of_lines
from tests.metrics.many_groups import planted, scores_of
from tests.metrics.small import rows_of

ITEMS, PEOPLE = 40, 10
NAMES = ("a", "b", "c", "d")


def means(rng, *places):
    """Groups along one line: the gap between two of them is how far their places are apart."""
    line = rng.standard_normal(ITEMS)
    line /= np.sqrt((line**2).mean())
    return {name: place * line for name, place in zip(NAMES, places, strict=False)}


def simulated(seed, *places, people=PEOPLE, spread=1.0, **more):
    rng = np.random.default_rng(seed)
    return scores_of(planted(rng, means(rng, *places), people, spread), **more)


def test_a_pair_is_measured_as_two_groups_alone_are():
    rng = np.random.default_rng(0)
    groups = planted(rng, means(rng, 0.0, 0.4, 1.0), PEOPLE, 0.5)
    pairs = scores_of(groups, paraphrases=4).pairs
    assert [pair.data.groups for pair in pairs] == [*combinations("abc", 2)]
    for pair in pairs:
        alone = scores_of({name: groups[name] for name in pair.data.groups}, paraphrases=4)
        assert alone.pairs == (alone,)
        assert pair.data == alone.data
        assert np.array_equal(pair.log_p, alone.log_p)
        assert r_rows(pair, 3) == r_rows(alone, 3)
        assert GroupEffect(pair, 3).estimate == GroupEffect(alone, 3).estimate


def test_p_is_holms_over_all_pairs_and_all_sets():
    sets = [simulated(seed, 0, 0.1, 0.3, paraphrases=2) for seed in (1, 2)]
    effects = effects_of(sets, seed=0)
    rows = rows_of(effect_rows(effects), "group_effect")
    expected = multipletests([e.p_value for e in effects], method="holm")[1]
    assert [row.detail["p_adjusted"] for row in rows] == pytest.approx([*expected])
    assert {row.detail["people"] for row in rows} == {PEOPLE}
    assert len(rows) == 6
    two = sets[0].pairs[:1]
    assert rows_of_all_groups(two, effects_of(two, 0), rows) == []


def test_the_largest_gap_is_that_of_the_planted_pair_and_the_omnibus_row_of_all():
    scores = simulated(3, 0.3, 0.0, 1.0, 0.5, people=40, spread=0.3)
    effects = effects_of([scores], seed=0)
    rows = effect_rows(effects)
    row, omnibus = rows_of_all_groups([scores], effects, rows)
    assert (row.metric, row.detail["pair"], row.detail["pairs"]) == ("largest_gap", ["b", "c"], 6)
    assert row.facets == {GROUPS: 4}
    assert row.value == max(r.value or 0 for r in rows_of(rows, "group_effect"))
    assert row.lo < 1.0 < row.hi
    assert row.detail["p_adjusted"] < 0.05
    assert (omnibus.metric, omnibus.group_a, omnibus.facets) == ("omnibus_effect", "", row.facets)
    assert omnibus.value == pytest.approx(np.sqrt(np.mean([e.squared for e in effects])))
    assert omnibus.lo < omnibus.value < omnibus.hi
    assert omnibus.detail["p"] == omnibus.detail["p_adjusted"] < 0.05


@pytest.mark.parametrize("places", [(0.0, 0.0, 0.0, 0.0), (0.0, 0.6, 0.6, 0.6), (0, 0.2, 0.5, 1)])
def test_its_interval_covers_the_truth_where_pairs_tie_and_where_one_stands_out(places):
    covered = 0
    for seed in range(40):
        _, gap = largest_gap(effects_of([simulated(seed, *places, spread=0.6)], seed))
        covered += gap.lo <= max(places) + 1e-9 <= gap.hi + 1e-9
    assert covered >= 36  # of a true 95 % fewer would be seen once in 20 such tests


def test_where_nothing_differs_holm_over_pairs_finds_something_once_in_twenty():
    significant = 0
    for seed in range(60):
        rows = effect_rows(effects_of([simulated(100 + seed, 0, 0, 0, people=6)], seed))
        significant += any(row.detail.get("p_adjusted", 1.0) <= 0.05 for row in rows)
    assert significant <= 7


def test_the_omnibus_p_is_that_of_every_permutation_within_places():
    rng = np.random.default_rng(4)
    groups = planted(rng, means(rng, 0.0, 0.2, 0.4), 4, 1.0)
    table = np.stack([*groups.values()])  # [group, person, item]
    totals = []
    for orders in product(permutations(range(3)), repeat=4):
        of_groups = table[np.transpose(orders), np.arange(4)].mean(axis=1)
        totals.append(sum(((a - b) ** 2).mean() for a, b in combinations(of_groups, 2)))
    exact = np.mean(np.array(totals) >= totals[0] - 1e-9)
    assert 0.02 < exact < 0.9
    close = 4 * np.sqrt(exact * (1 - exact) / 4000)
    assert omnibus_p(scores_of(groups), 0, 4000) == pytest.approx(exact, abs=close)
    assert omnibus_p(simulated(4, 0, 1, 2, people=1), 0, 100) is None


def test_the_omnibus_test_keeps_its_level_and_finds_the_one_group_that_differs():
    significant = {0.0: 0, 0.5: 0}
    for place, seed in product(significant, range(60)):
        scores = simulated(200 + seed, 0, 0, place, people=8)
        significant[place] += omnibus_p(scores, seed, 200) <= 0.05
    assert significant[0.0] <= 8  # of a level of 5 % more would be seen once in 100 such tests
    assert significant[0.5] >= 30


def test_bands_hold_for_all_at_once_and_are_no_wider_than_need_be():
    rng = np.random.default_rng(6)
    drawn = rng.standard_normal((10, 1000))
    lo, hi = bands(drawn)
    inside = ((drawn >= lo[:, None]) & (drawn <= hi[:, None])).all(axis=0).mean()
    assert 0.95 <= inside < 0.97  # ranks are whole numbers, of which several lie at the end
    ends = np.ravel(bands(drawn[:1]))
    assert ends == pytest.approx(np.quantile(drawn[0], [0.025, 0.975]), abs=0.1)


def test_a_leaning_that_people_have_in_both_groups_is_no_noise():
    """The same people in two groups: d² less s²/n of the differences."""
    rng = np.random.default_rng(7)
    leaning = 2.0 * rng.standard_normal((PEOPLE, ITEMS))
    shift = 0.3 * rng.standard_normal(ITEMS)
    noise = 0.1 * rng.standard_normal((2, PEOPLE, ITEMS))
    groups = {"a": leaning + shift / 2 + noise[0], "b": leaning - shift / 2 + noise[1]}
    names = [f"n{i}" for i in range(PEOPLE)]
    twins = GroupEffect(scores_of(groups, names={"a": names, "b": names}))
    d = groups["a"] - groups["b"]
    expected = (d.mean(axis=0) ** 2 - d.var(axis=0, ddof=1) / PEOPLE).mean()
    assert twins.squared == pytest.approx(expected)
    assert twins.scores.twins
    strangers = GroupEffect(scores_of(groups))
    assert twins.p_value < 0.05 < strangers.p_value
    assert twins.estimate.lo <= np.sqrt((shift**2).mean()) <= twins.estimate.hi


@pytest.mark.parametrize("named", [True, False])
def test_single_texts_of_every_pair_are_kept_and_read_again(named, tmp_path):
    people = 3 if named else 1
    scores = simulated(8, 0.0, 0.4, 1.0, people=people, paraphrases=2, named=named)
    write_scored_texts(tmp_path / "none.jsonl", "none", [*map(GroupEffect, scores.pairs)])
    lines = read(tmp_path / "none.jsonl")
    for pair in scores.pairs:
        again = scores_of_lines([li for li in lines if tuple(li["groups"]) == pair.data.groups])
        assert np.array_equal(again.log_p, pair.log_p)
        assert again.names(0) == pair.names(0)
