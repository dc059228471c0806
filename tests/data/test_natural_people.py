"""Natural templates about people show the group in the way that their family promises."""

from __future__ import annotations

import re
from itertools import combinations, product
from typing import Any

import pytest

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import SPLITS, Axis, NoFormsError
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.natural import _read
from countergen_edit.data.task import Task
from countergen_edit.data.templates import slot_names

AXES = ("gender", "nationality", "race", "religion", "age")
FAMILIES = ("names", "words", "pronouns", "several", "sentences", "questions")
PRONOUNS = {"subject", "object", "possessive", "reflexive"}
GENDERED = re.compile(r"\b(he|she|him|her|his|hers|himself|herself|m[ae]n|wom[ae]n)\b", re.I)
BYSTANDERS = {
    "fit": {"Alex", "Sam", "Robin", "Casey", "Jordan"},
    "validation": {"Taylor", "Jamie"},
    "test": {"Riley", "Quinn", "Charlie", "Avery"},
}


def of_family(
    family: str, axis: str = "gender", groups: tuple[str, str] | None = None
) -> dict[str, CounterfactualSet]:
    entries = [{"source": "natural_people", "family": family}]
    data: dict[str, Any] = dict.fromkeys(SPLITS, entries)
    task = Task.from_config(axis, data, texts="natural", groups=groups)
    return {split: task.sets(split)[0] for split in SPLITS}


def paraphrases(family: str, split: str) -> list[str]:
    return [text for texts in _read("people")["families"][family][split].values() for text in texts]


@pytest.mark.parametrize("family", FAMILIES)
def test_gender_has_many_paraphrases_in_every_split(family: str) -> None:
    sets = of_family(family)
    for split, least in (("fit", 8), ("validation", 4), ("test", 4)):
        samples = sets[split].samples
        assert len(samples) >= least
        for sample in samples:
            assert len(set(sample.outputs)) == len(sample.outputs)
            assert 10 <= len(sample.outputs) <= 14 or sample.outputs == (" yes", " no")
            assert all(output.count(" ") == 1 for output in sample.outputs), "one word each"
            if sample.template.endswith(" a"):
                assert not [output for output in sample.outputs if output[1] in "aeiou"]


def test_no_paraphrase_stands_twice_and_none_opens_with_a_name() -> None:
    every = [text for family in FAMILIES for split in SPLITS for text in paraphrases(family, split)]
    assert len(set(every)) == len(every)
    assert not [text for text in every if text.startswith("{name}")]
    assert not [text for text in every if GENDERED.search(text)]


def test_the_group_shows_in_the_way_of_the_family() -> None:
    for split in SPLITS:
        for text in paraphrases("words", split):
            assert not slot_names(text) & {"name", *PRONOUNS}, text
        for text in paraphrases("names", split):
            assert "name" in slot_names(text), text
        for text in paraphrases("pronouns", split):
            assert slot_names(text) <= PRONOUNS, text
        for text in paraphrases("questions", split):
            assert text.endswith("? Answer:"), text
            assert text.startswith("Question: "), text


def test_bystanders_are_the_same_for_both_groups_and_nobody_of_an_axis() -> None:
    for split, theirs in BYSTANDERS.items():
        for text in paraphrases("several", split):
            assert theirs & set(re.findall(r"\w+", text)), text
    for a, b in combinations(BYSTANDERS.values(), 2):
        assert not a & b
    known = {
        name
        for axis in AXES
        for group in Axis.from_config(read_config("axis", axis)).groups.values()
        for name in group.all_names()
    }
    assert not known & set().union(*BYSTANDERS.values())


LACKING = [
    ("nationality", "words"),
    *((axis, "names") for axis in ("religion", "age")),
    *((axis, "pronouns") for axis in ("nationality", "race", "religion", "age")),
]


@pytest.mark.parametrize(("axis", "family"), [*product(AXES, FAMILIES)])
def test_every_axis_takes_what_it_can_fill(axis: str, family: str) -> None:
    if (axis, family) in LACKING:
        message = f"axis '{axis}' has no word forms.*by which the templates of family '{family}'"
        with pytest.raises(NoFormsError, match=message):
            of_family(family, axis)
        return
    # That a task was made says that its splits share no template, prompt or name.
    for data in of_family(family, axis).values():
        assert not [v.text for s in data.samples for v in s.variations if "{" in v.text]


def test_groups_that_share_the_forms_are_not_told_apart_by_them() -> None:
    with pytest.raises(NoFormsError):
        of_family("words", "nationality", ("usa_female", "mexico_female"))
    men_and_women = of_family("words", "nationality", ("usa_female", "usa_male"))
    assert men_and_women["fit"].samples[0].variations[0].text == "The woman next door works as a"
    several = of_family("several", "nationality", ("usa_female", "mexico_female"))
    assert all("{name}" in template for template in several["fit"].templates)


def test_an_unknown_family_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="'pronoun': did you mean 'pronouns'"):
        of_family("pronoun")


@pytest.mark.slow
def test_many_leaves_two_families_to_the_test() -> None:
    task = Task.from_config("gender", "many", texts="natural")
    fitted = {data.name.removesuffix("_fit") for data in task.fit}
    chosen = {data.name.removesuffix("_validation") for data in task.validation}
    tested = {data.name.removesuffix("_test") for data in task.test}
    assert fitted == chosen
    assert {f"natural_{family}" for family in FAMILIES} <= tested
    assert not {"natural_several", "natural_questions"} & fitted
    assert [data.name for data in task.keep] == ["natural_facts_fit", "natural_agreement_fit"]
    assert [data.name for data in task.legitimate_differences["test"]] == ["natural_facts_test"]


def test_many_of_the_testbed_speaks_its_words_and_leaves_two_families_to_the_test() -> None:
    from countergen_edit.testbed import load_truth

    task = Task.from_config("gender", "many_testbed")
    unseen = {"sentiment_test", "stereotypes_test"}
    fitted = {data.name.removesuffix("_fit") for data in task.fit}
    assert {d.name for d in task.test} == {f"{name}_test" for name in fitted} | unseen
    assert [data.name for data in task.keep] == ["voices_fit", "competitions_fit", "agreement_fit"]
    assert {
        split: [data.name for data in sets] for split, sets in task.legitimate_differences.items()
    } == {
        split: [f"{family}_{split}" for family in load_truth().legitimate_differences[:2]]
        for split in ("validation", "test")
    }
    words = set(re.findall(r"\w+", load_truth().text))
    for data in (*task.fit, *task.validation, *task.test):
        for sample in data.samples:
            asked = re.sub(r"\{\w+\}", "", sample.template + "".join(sample.outputs))
            assert set(re.findall(r"\w+", asked)) <= words | {"an", "No"}, asked
