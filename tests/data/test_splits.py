"""Nothing that was fitted is measured, and parts of a set share no template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.splits import check_leakage, without_overlap
from countergen_edit.data.templates import Template, expand

GENDER = Axis.from_config(read_config("axis", "gender"))


def crossed(name: str, templates: Sequence[str], split: Split) -> CounterfactualSet:
    return expand(name, [Template(t, (" Yes",)) for t in templates], GENDER, split)


def plain(name: str, female: str, male: str) -> CounterfactualSet:
    sides = (Variation("female", female), Variation("male", male))
    sample = Sample(f"{female} / {male}", (" x",), sides)
    return CounterfactualSet(name, "gender", ("female", "male"), (sample,))


FIT = crossed("questions", ["Is {name} smart?", "Is {name} strong?"], "fit")
LEAKS = {
    "data set": (crossed("questions", ["{name} left"], "test"), "data set 'questions'"),
    "template": (
        crossed("t", ["{name} left", "is  {name} SMART?"], "test"),
        r"template 'Is \{name",
    ),
    "name": (crossed("t", ["{name} left"], "fit"), "name 'Olivia'"),
    "name in a text": (plain("t", "She met Eva.", "He met Eva."), "name 'Eva'"),
    "prompt": (plain("t", "is Olivia smart?", "Is Liam strong?"), "prompt 'Is Olivia smart"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_an_error_that_names_the_culprit_and_both_sets(leak: str) -> None:
    test, message = LEAKS[leak]
    clean = crossed("clean", ["{name} left"], "test")
    with pytest.raises(UserError, match=message) as caught:
        check_leakage([FIT], [clean, test])
    assert "'questions'" in str(caught.value)
    assert repr(test.name) in str(caught.value)


def test_a_name_of_the_test_set_in_a_fitting_text_is_a_leak_too() -> None:
    fit = plain("f", "She met Jane.", "He met Jane.")
    with pytest.raises(UserError, match="name 'Jane'"):
        check_leakage([fit], [crossed("t", ["{name} left"], "test")])


def test_part_of_a_word_is_no_name() -> None:
    check_leakage([FIT], [plain("t", "Her Evangeline left.", "His Evangeline left.")])


def test_sets_that_share_nothing_pass() -> None:
    check_leakage([FIT], [crossed("t", ["{name} left"], "test"), plain("p", "She ran", "He ran")])
    check_leakage([], [FIT])


@pytest.mark.parametrize("leak", [leak for leak in LEAKS if leak != "data set"])
def test_what_is_taken_apart_leaks_nothing_and_keeps_the_rest(leak: str) -> None:
    tested, _ = LEAKS[leak]
    mixed = replace(FIT, samples=(*FIT.samples, *crossed("t", ["Is {name} kind?"], "fit").samples))
    left = without_overlap(mixed, [tested])
    if leak == "name":  # all people are known
        assert left is None
        return
    assert left is not None
    check_leakage([left], [tested])
    assert {"Is {name} kind?"} <= {*left.templates} <= {*mixed.templates}
    assert len(mixed.names) - len(left.names) == (0 if leak == "template" else 2)  # a pair


def test_apart_from_nothing_a_set_is_as_it_was() -> None:
    assert without_overlap(FIT, []) == FIT
