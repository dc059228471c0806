"""A permutation test has a smallest P: what cannot fall to 0.05 cannot be tested."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from countergen_edit.decisions.significance import SIGNIFICANT, class_of
from countergen_edit.metrics.r.effect_rows import effect_rows, effects_of
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.r.metric import R
from countergen_edit.metrics.results import Results
from countergen_edit.reports.views.r import RView
from tests.metrics.many_groups import planted, scores_of, two_groups
from tests.metrics.small import rows_of


def shares_of_deals(a, b, blocks):
    """P of the data and the smallest possible, by counting all deals."""
    people = len(a)
    by_block = []
    for items in np.split(np.concatenate([a, b]), blocks, axis=1):
        squares = []
        for first in combinations(range(2 * people), people):
            second = [i for i in range(2 * people) if i not in first]
            squares.append(((items[[*first]].mean(0) - items[second].mean(0)) ** 2).sum())
        by_block.append(squares)
    totals = np.array([sum(deal) for deal in product(*by_block)])
    return tuple((totals >= x * (1 - 1e-12)).mean() for x in (totals[0], totals.max()))


@pytest.mark.parametrize(("people", "blocks"), [(2, 1), (3, 1), (4, 1), (2, 2), (2, 3), (3, 2)])
def test_p_and_the_smallest_p_are_those_of_counting_all_deals(people, blocks):
    a, b = np.random.default_rng(people).normal(size=(2, people, 2 * blocks))
    effect = GroupEffect(two_groups(a, b, blocks, named=blocks == 1))
    p, least = shares_of_deals(a, b, blocks)
    assert effect.p_value == pytest.approx(p)
    assert effect.least_p() == effect.least_p(people) == pytest.approx(least)


@pytest.mark.parametrize("people", [2, 4])
def test_people_who_are_in_both_groups_are_turned_round_one_by_one(people):
    a, b = np.random.default_rng(1).normal(size=(2, people, 6))
    names = [f"n{i}" for i in range(people)]
    effect = GroupEffect(scores_of({"a": a, "b": b}, names={"a": names, "b": names}))
    signs = np.array([*product([1, -1], repeat=people)])
    totals = ((signs @ (a - b)) ** 2).sum(axis=1)
    assert effect.p_value == pytest.approx((totals >= totals[0] * (1 - 1e-12)).mean())
    assert effect.least_p() == effect.least_p(people) == 2 / 2**people


def test_deals_of_many_prompts_are_too_many_for_a_float_and_no_error():
    a, b = np.random.default_rng(0).normal(size=(2, 12, 120))
    effect = GroupEffect(two_groups(a, b, 60, named=False), permutations=50)
    assert effect.people.least_p() == 0.0
    assert effect.least_p() == 1 / 51


@pytest.mark.parametrize(
    ("groups", "sets", "names", "needed", "least"),
    [(6, 1, 4, 6, "0.43"), (6, 2, 4, 7, "0.86"), (2, 1, 2, 4, "0.33"), (2, 3, 3, 5, "0.30")],
)
def test_a_gap_of_any_size_cannot_be_tested_with_too_few_names(groups, sets, names, needed, least):
    """The groups are 100 nats apart; with the names that it asks for, pairs are significant."""

    def rows(people):
        rng = np.random.default_rng(0)
        means = {f"g{i}": np.full(6, 100.0 * i) for i in range(groups)}
        scores = [scores_of(planted(rng, means, people, 0.1), 2) for _ in range(sets)]
        rows = rows_of(effect_rows(effects_of(scores, 0)), "group_effect")
        datasets = np.repeat([f"set{i}_test" for i in range(sets)], len(rows) // sets)
        return Results(
            [replace(r, split="test", dataset=d) for r, d in zip(rows, datasets, strict=True)]
        )

    few, enough, one_less = (rows(n) for n in (names, needed, needed - 1))
    for row in few.of("group_effect"):
        assert class_of(row.detail) == "cannot be tested"
        assert row.detail["names_to_test"] == needed
        assert row.detail["p_adjusted"] >= row.detail["least_p_adjusted"] - 1e-12
    sentence, *others = RView(R, "r").sentences(few)
    start = f"Cannot be tested: needs {needed} names per group, has {names}. The "
    assert sentence.startswith(start)
    assert sentence.endswith(f" is {least}.")
    assert "No significant" not in " ".join(others)
    for row in enough.of("group_effect"):
        assert row.detail["least_p_adjusted"] <= SIGNIFICANT
        assert class_of(row.detail) == "biased"
    assert any(class_of(row.detail) != "biased" for row in one_less.of("group_effect"))


def test_a_row_counts_the_prompts_that_contain_names():
    """One prompt in two says a name, the others group words."""
    a, b = np.random.default_rng(0).normal(size=(2, 1, 12))
    scores = two_groups(a, b, 6, named=False)
    samples = [*scores.data.samples]
    for i in (0, 2, 4):
        named = (replace(v, name="Mary") for v in samples[i].variations)
        samples[i] = replace(samples[i], variations=tuple(named))
    effect = GroupEffect(replace(scores, data=replace(scores.data, samples=tuple(samples))))
    row = replace(effect_rows([effect])[0], split="test")
    assert (row.detail["prompts"], row.detail["prompts_with_names"]) == (6, 3)
    [sentence] = RView(R, "r").sentences(Results([row]))
    assert sentence.startswith("Not tested: a within-group null needs two names per group on every")
    assert "(3 of 6 prompts contain names, 3 group words only)" in sentence
