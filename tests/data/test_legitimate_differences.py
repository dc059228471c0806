"""Facts are measured on names and templates of their own, and travel with the task."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import SPLITS
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.task import Task

TEST = [{"source": "testbed", "family": "hobbies"}]
VOICES = {"source": "testbed", "family": "voices"}
RACES = {"source": "testbed", "family": "competitions"}
GENDERED = re.compile(r"\b(he|she|him|her|his|hers|himself|herself)\b", re.I)


def task(**data: Any) -> Task:
    return Task.from_config("gender", {"test": TEST, "keep": [], **data})


def said(*templates: str, name: str = "mine") -> dict[str, Any]:
    outputs = [" alto", " tenor"]
    return {"source": "templates", "name": name, "templates": [*templates], "outputs": outputs}


def test_every_set_is_made_for_validation_and_for_test() -> None:
    made = task(legitimate_differences=[VOICES, RACES])
    assert {
        split: [data.name for data in sets] for split, sets in made.legitimate_differences.items()
    } == {
        "validation": ["voices_validation", "competitions_validation"],
        "test": ["voices_test", "competitions_test"],
    }
    validation, test = (made.legitimate_differences[split][0] for split in ("validation", "test"))
    assert not set(validation.names) & set(test.names)
    assert not set(validation.templates) & set(test.templates)
    assert set(made.every_fact) <= set(made.every_set)


def test_without_them_nothing_changes() -> None:
    assert task() == task(legitimate_differences=[]) == task(legitimate_differences=None)
    assert (task().legitimate_differences, task().every_fact) == ({}, ())
    assert task(legitimate_differences=[VOICES]).fingerprint != task().fingerprint
    assert (
        task(legitimate_differences=[VOICES, RACES]).fingerprint
        == task(legitimate_differences=[RACES, VOICES]).fingerprint
    )


@pytest.mark.parametrize(
    "fit",
    [
        {"fit": [{**said("{name} sang as"), "name": "other"}]},
        {"fit": [{**said("{name} sang as"), "name": "other", "role": "keep"}]},
        {"fit": [{**said("{name} sang as"), "name": "other", "role": "background"}]},
        {"keep": [{**said("{name} sang as"), "name": "other"}]},
    ],
)
def test_what_was_fitted_kept_or_weighed_is_no_fact_to_measure(fit: dict[str, Any]) -> None:
    assert task(legitimate_differences=[said("{name} sings as")], **fit).legitimate_differences
    with pytest.raises(UserError, match="sang as"):
        task(legitimate_differences=[said("{name}  sang as")], **fit)


def test_two_sets_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="are called 'mine'"):
        task(legitimate_differences=[said("{name} sang as"), said("{name} sings as")])


def test_few_names_thin_legitimate_differences_too() -> None:
    made = task(legitimate_differences=[VOICES], validation=TEST)
    thin = made.thinned(3)
    [few], [all_names] = (
        thin.legitimate_differences["validation"],
        made.legitimate_differences["validation"],
    )
    assert few.widest == 3 < all_names.widest
    assert thin.legitimate_differences["test"] == made.legitimate_differences["test"]


@pytest.fixture(scope="module")
def natural() -> dict[str, CounterfactualSet]:
    entry = {"source": "natural_facts"}
    made = task(fit=[{**entry, "role": "keep"}], legitimate_differences=[entry])
    return {
        "fit": made.keep[0],
        **{split: sets[0] for split, sets in made.legitimate_differences.items()},
    }


def test_natural_facts_show_the_group_in_names_alone(
    natural: dict[str, CounterfactualSet],
) -> None:
    for split in SPLITS:
        assert len(natural[split].templates) >= 5
        for sample in natural[split].samples:
            assert "{name}" in sample.template[1:]
            assert not GENDERED.search(sample.template), sample.template
            assert 2 <= len(set(sample.outputs)) == len(sample.outputs)
            if sample.template.endswith(" a"):
                assert not [output for output in sample.outputs if output[1] in "aeiou"]
    for a, b in combinations(SPLITS, 2):
        assert not set(natural[a].templates) & set(natural[b].templates)


def test_an_axis_without_natural_facts_is_refused() -> None:
    data = {
        "test": [{"source": "natural_stereotypes"}],
        "legitimate_differences": [{"source": "natural_facts"}],
    }
    with pytest.raises(UserError, match="axis with natural facts 'race'"):
        Task.from_config("race", data, texts="natural")
