"""Draws of names and subsets of sets are nested, keep pairs, and depend on the seed alone."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import SPLITS, Axis, Group
from countergen_edit.data.subsets import (
    FULLY_CROSSED,
    NAME_COUNTS,
    NameDraw,
    few_variations,
    round_robin,
)
from countergen_edit.data.task import Task
from tests.crossed import crossed

NATIONALITY = Axis.from_config(read_config("axis", "nationality"))
LEADS = {"source": "templates", "templates": ["{name} leads the"], "outputs": [" team"]}
TEST = [{**LEADS, "name": "shop", "templates": ["{name} ran the"]}]


def paraphrases(count):
    return {**LEADS, "templates": [f"{{name}} saw {i}" for i in range(count)]}


@given(st.integers(1, 80), st.integers(0, 3))
def test_a_draw_has_its_size_is_nested_and_keeps_order_and_pairs(count, seed):
    drawn = NameDraw({"fit": count}, seed).draw(NATIONALITY)
    more = NameDraw({"fit": count + 5}, seed).draw(NATIONALITY)
    places = set()
    for name, group in drawn.groups.items():
        every = NATIONALITY.groups[name].names["fit"]
        chosen = group.names["fit"]
        assert len(chosen) == min(count, len(every))
        assert {*chosen} <= {*more.groups[name].names["fit"]}
        places.add(tuple(every.index(one) for one in chosen))
        assert group.names["test"] == NATIONALITY.groups[name].names["test"]
    assert len(places) == 1
    assert [*next(iter(places))] == sorted(next(iter(places)))


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
def test_unequal_lists_give_as_many_names_of_each_group(a, b, count):
    groups = {}
    for group, size in (("a", a), ("b", b)):
        names = {s: tuple(f"{group}_{s}_{i}" for i in range(size)) for s in SPLITS}
        groups[group] = Group(group, names)
    drawn = NameDraw(dict.fromkeys(SPLITS, count)).draw(Axis("letters", groups))
    sizes = {len(group.names[s]) for group in drawn.groups.values() for s in SPLITS}
    assert sizes == {min(a, b, count)}


def test_a_set_changes_no_draw_of_another():
    alone = Task.from_config("nationality", {"fit": [paraphrases(4)], "test": TEST}, seed=3)
    more = {**LEADS, "name": "more", "templates": ["{name} has a"]}
    both = Task.from_config("nationality", {"fit": [more, paraphrases(4)], "test": TEST}, seed=3)
    assert both.fit[1] == alone.fit[0]
    assert both.test == alone.test
    other = Task.from_config("nationality", {"fit": [paraphrases(4)], "test": TEST}, seed=4)
    assert other.names["fit"] != alone.names["fit"]


def test_only_the_first_templates_of_a_fitting_set_are_crossed_with_all_names():
    names = {"fit": 20, "few": 6, "test": 9}
    task = Task.from_config("nationality", {"fit": [paraphrases(5)], "test": TEST}, names=names)
    [data] = task.fit
    sizes = [[len(sample.of(group)) for group in data.groups] for sample in data.samples]
    assert sizes == [[20, 20]] * FULLY_CROSSED + [[6, 6]] * 3
    of_few = {tuple(v.name for v in sample.variations) for sample in data.samples[FULLY_CROSSED:]}
    assert len(of_few) == 1
    assert {*next(iter(of_few))} < {v.name for v in data.samples[0].variations}
    assert [len(sample.variations) for sample in task.test[0].samples] == [18]
    # The i-th variations of two groups are one counterfactual pair.
    lists = [NATIONALITY.groups[g].names["fit"] for g in data.groups]
    for sample in data.samples:
        for a, b in zip(*(sample.of(g) for g in data.groups), strict=True):
            assert lists[0].index(a.name or "") == lists[1].index(b.name or "")


def test_appendix_a_keeps_its_first_ten_names():
    gender = read_config("axis", "gender")["groups"]
    for names in (NAME_COUNTS, None, {"fit": 3, "few": 1}):
        [data] = Task.from_config("gender", {"fit": ["appendix_a"], "test": TEST}, names=names).fit
        for sample in data.samples:
            for group in data.groups:
                drawn = [v.name for v in sample.of(group)]
                assert drawn == gender[group]["names"]["fit"][:10]


@pytest.mark.parametrize(("config", "message"), [({"few": True}, "few"), (5, "names=5")])
def test_wrong_numbers_of_names_are_refused(config, message):
    with pytest.raises(UserError, match=message):
        NameDraw.from_config(config)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 14))
def test_round_robin_uses_names_equally_often(paraphrases, people, most):
    data = round_robin(crossed(paraphrases, people), most)
    counted = Counter(v.name for sample in data.samples for v in sample.variations)
    for sample in data.samples:
        places = [[v.name[1:] for v in sample.of(group) if v.name] for group in "ab"]
        assert places[0] == places[1]
        assert len(places[0]) == min(most, people)
    counts = [counted[f"{group}{i}"] for group in "ab" for i in range(people)]
    assert max(counts) - min(counts) <= 1


@given(st.integers(1, 5), st.integers(2, 9), st.integers(1, 4), st.integers(0, 4))
def test_what_few_keep_more_keep_too(paraphrases, people, most, more):
    data = crossed(paraphrases, people)
    few, many = few_variations(data, most, 3), few_variations(data, most + more, 3)
    for a, b in zip(few.samples, many.samples, strict=True):
        assert {*a.variations} <= {*b.variations}
