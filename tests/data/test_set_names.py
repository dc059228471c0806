"""No two contents go by one name where rows would confuse them."""

from __future__ import annotations

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.set_builder import Given, distinctly_named


def given(
    split: Split, said: str, path: str | None = None, name: str = "pairs", group: str = "male"
) -> Given:
    sides = (Variation("female", f"She {said}"), Variation(group, f"He {said}"))
    sample = Sample(said, (" well",), sides)
    return Given(split, CounterfactualSet(name, "gender", ("female", group), (sample,)), path)


def names(*sets: Given) -> list[str]:
    told = distinctly_named(sets)
    assert [(one.split, one.data.samples) for one in told] == [
        (one.split, one.data.samples) for one in sets
    ]
    return [one.data.name for one in told]


def test_files_of_one_name_are_called_after_as_much_of_their_paths_as_it_takes() -> None:
    a, b = given("test", "sang", "a/pairs.jsonl"), given("test", "ran", "b/pairs.jsonl")
    assert names(a, b) == ["a/pairs", "b/pairs"]
    deep = given("test", "ran", "x/a/pairs.jsonl")
    assert names(given("test", "sang", "y/a/pairs.jsonl"), deep) == ["y/a/pairs", "x/a/pairs"]
    table = given("test", "ran", "./a/pairs.csv")
    assert names(a, table) == ["pairs.jsonl", "pairs.csv"]
    assert names(a, table, b) == ["a/pairs.jsonl", "a/pairs.csv", "b/pairs.jsonl"]


def test_a_file_gives_way_to_a_set_that_was_named() -> None:
    named = given("test", "ran", name="pairs")
    assert names(given("test", "sang", "a/pairs.jsonl"), named) == ["a/pairs", "pairs"]


def test_a_fitting_and_a_test_file_are_told_apart_too() -> None:
    fit, test = given("fit", "sang", "a/pairs.jsonl"), given("test", "ran", "b/pairs.jsonl")
    assert names(fit, test) == ["a/pairs", "b/pairs"]


def test_what_is_not_confused_keeps_its_name() -> None:
    one, other = given("test", "sang", "a/one.jsonl", "one"), given("test", "ran", "a/o.csv", "o")
    assert names(one, other) == ["one", "o"]
    again = given("test", "sang", "copy/one.jsonl", "one")
    assert names(one, again) == ["one", "one"]  # of one content
    family = given("validation", "ran", "b/one.jsonl", "one")
    assert names(one, family) == ["one", "one"]  # what a layer is chosen on and what is reported


@pytest.mark.parametrize(
    ("first", "second", "where"),
    [
        (given("test", "sang"), given("test", "ran"), "data.test"),
        (given("fit", "sang"), given("test", "ran"), "data.fit and data.test"),
        (
            given("test", "sang", "a/pairs.jsonl"),
            given("test", "sang", "./a/pairs.jsonl", group="other"),
            "data.test",
        ),
    ],
)
def test_where_no_path_tells_sets_apart_a_name_is_asked_for(
    first: Given, second: Given, where: str
) -> None:
    with pytest.raises(UserError, match=rf"of {where} are called 'pairs'.*\(name: …\)"):
        distinctly_named([first, second])


def test_a_path_does_not_take_the_name_of_a_third_set() -> None:
    a, b = given("test", "sang", "a/pairs.jsonl"), given("test", "ran", "b/pairs.jsonl")
    with pytest.raises(UserError, match="are called 'a/pairs'"):
        distinctly_named([a, b, given("test", "slept", name="a/pairs")])
