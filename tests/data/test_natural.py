"""Natural text is about nobody, and natural templates ask for what an axis has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data import natural
from countergen_edit.data.axis import SPLITS, Axis
from countergen_edit.data.neutral import from_config, split_texts
from countergen_edit.data.task import Task
from countergen_edit.data.text.substitution import Substitution

TEXTS = [text for texts in natural.neutral().values() for text in texts]
PERSONS = re.compile(r"\b(i|me|my|we|us|our|you|your|he|she|him|her|his|hers)\b", re.I)
TEST = [{"source": "templates", "templates": ["{name} ran the"], "outputs": [" shop"]}]
AGE = [{"source": "templates", "templates": ["The {person} ran the"], "outputs": [" shop"]}]


def test_there_is_enough_text_of_the_promised_length_in_three_parts() -> None:
    parts = natural.neutral()
    assert len(TEXTS) >= 300
    assert {split: len(parts[split]) for split in SPLITS} == {
        "fit": 180,
        "validation": 60,
        "test": 90,
    }
    lengths = [len(text.split()) for text in TEXTS]
    assert min(lengths) >= 14
    assert max(lengths) <= 50
    assert len(set(TEXTS)) == len(TEXTS)


@pytest.mark.parametrize("name", ["gender", "nationality", "race"])
def test_natural_text_is_about_nobody(name: str) -> None:
    axis = Axis.from_config(read_config("axis", name))
    names = {n for group in axis.groups.values() for n in group.all_names()}
    for text in TEXTS:
        assert not names & set(re.findall(r"[\w-]+", text)), text
        assert not PERSONS.search(text), text


def test_swapping_genders_changes_no_natural_text() -> None:
    config = read_config("axis", "gender")
    swap = Substitution.from_config(Axis.from_config(config), config["substitution"])
    assert [text for text in TEXTS if swap(text) != text] == []


@given(st.lists(st.text(), min_size=3, max_size=60))
def test_no_text_stands_in_two_splits_and_none_is_lost(texts: list[str]) -> None:
    if len(set(texts)) < 3:
        with pytest.raises(UserError, match="cannot be split"):
            split_texts(texts)
        return
    parts = split_texts(texts)
    assert all(parts[split] for split in SPLITS)
    assert {t for split in SPLITS for t in parts[split]} == set(texts)
    for a, b in combinations(SPLITS, 2):
        assert not set(parts[a]) & set(parts[b])


def test_neutral_text_is_named_in_one_word_or_by_its_file(tmp_path: Path) -> None:
    assert from_config("natural") == natural.neutral()
    file = tmp_path / "mine.txt"
    file.write_text("\n".join(TEXTS[:12]))
    assert from_config(str(file)) == from_config({"source": "file", "path": str(file)})
    assert from_config(str(file)) == split_texts(TEXTS[:12])
    with pytest.raises(UserError, match="did you mean 'natural'"):
        from_config("natrual")


def test_a_task_refuses_neutral_text_of_two_splits() -> None:
    axis = Axis.from_config(read_config("axis", "gender"))
    for a, b in combinations(SPLITS, 2):
        with pytest.raises(UserError, match="stands in both"):
            Task(axis, ("female", "male"), neutral={a: ("One.", "Two."), b: ("Two.",)})


def agreement(task: Task) -> Mapping[str, Any]:
    of = task.agreement
    return {"fit": task.keep[0], "validation": of["validation"], "test": of["test"]}


def test_gender_has_natural_paraphrases_of_many_forms_in_every_split() -> None:
    task = Task.from_config("gender", {"test": TEST}, texts="natural")
    least = {"fit": 40, "validation": 20, "test": 20}
    for split, data in agreement(task).items():
        assert len(data.samples) >= least[split]
        for sample in data.samples:
            a, b = sample.outputs
            assert a != b
            assert (a + b).count(" ") == 2, "one word each"
    paraphrases = [sample.template for data in agreement(task).values() for sample in data.samples]
    assert len(set(paraphrases)) == len(paraphrases)
    assert len({s.outputs for data in agreement(task).values() for s in data.samples}) >= 10


def test_agreement_follows_the_groups_that_are_compared() -> None:
    men = ("male", "female")
    task = Task.from_config("gender", {"test": TEST}, texts="natural", groups=men)
    assert {data.groups for data in agreement(task).values()} == {men}
    assert task.agreement["test"].samples[0].outputs == (" his", " her")


def test_an_axis_takes_the_paraphrases_that_it_can_fill() -> None:
    pair = ("egypt_male", "usa_female")
    task = Task.from_config("nationality", {"test": TEST}, texts="natural", groups=pair)
    assert task.remarks == ()
    assert {s.outputs for s in task.agreement["test"].samples} <= {
        *((" he", " she"), (" him", " her"), (" his", " her"), (" himself", " herself")),
        (" man", " woman"),
    }


@pytest.mark.parametrize(
    ("axis", "test", "groups"),
    [
        ("race", TEST, None),
        ("age", AGE, None),
        ("nationality", TEST, None),
        ("nationality", TEST, ("usa_female", "mexico_female")),
    ],
)
def test_an_axis_without_forms_has_no_such_cost_and_says_so(
    axis: str, test: list[Any], groups: tuple[str, str] | None
) -> None:
    task = Task.from_config(axis, {"test": test}, texts="natural", groups=groups)
    assert task.agreement == {}
    assert task.keep == ()
    [remark] = task.remarks
    assert axis in remark
    assert "agreement is no cost here" in remark


def test_what_data_say_goes_before_what_texts_say() -> None:
    own = {**TEST[0], "name": "said", "templates": ["{name} said"], "outputs": [" she", " he"]}
    data = {"test": TEST, "keep": [own], "neutral": {"source": "texts", "texts": TEXTS[:9]}}
    task = Task.from_config("gender", data, texts="natural")
    assert [kept.templates for kept in task.keep] == [("{name} said",)]
    assert task.neutral == split_texts(TEXTS[:9])
    assert task.agreement["test"].name == "natural_agreement_test"
    none = Task.from_config("gender", {"test": TEST, "keep": [], "agreement": None})
    assert (none.keep, none.agreement) == ((), {})
    with pytest.raises(UserError, match="no word forms"):
        Task.from_config("race", {"test": TEST, "keep": [{"source": "natural_agreement"}]})


def test_the_testbed_has_its_own_texts_as_before() -> None:
    task = Task.from_config("gender", "contexts")
    assert [data.name for data in task.keep] == ["agreement_fit"]
    assert {s: data.name for s, data in task.agreement.items()} == {
        "validation": "agreement_validation",
        "test": "agreement_test",
    }
    assert task.neutral == from_config({"source": "testbed_neutral"})


@pytest.mark.parametrize("name", ["gender", "nationality", "race", "religion", "age"])
def test_stereotypes_are_natural_for_every_axis(name: str) -> None:
    axis = {"source": "natural_stereotypes", "axis": name, "first_names": 8}
    other = "race" if name == "gender" else "gender"
    texts = {"other_axes": [axis]}
    [data] = Task.from_config(other, {"test": TEST}, texts=texts).other_axes
    assert len(data.templates) >= 6
    assert all(len(set(sample.outputs)) == 8 for sample in data.samples)
    assert data.widest == (8 if data.names else 1)
    for template in data.templates:
        assert not template.startswith("{")
        assert not re.search(r"\b(he|she|him|her|his|hers)\b", template), template
    # "a" is the article of every output that has one.
    for sample in data.samples:
        if sample.template.endswith(" a"):
            assert not [output for output in sample.outputs if output[1] in "aeiou"]


def test_an_axis_without_stereotypes_is_refused() -> None:
    mine = {
        "name": "eyes",
        "groups": {g: {"names": {"test": [g.title()]}} for g in ("blue", "brown")},
    }
    data = {"test": [{"source": "natural_stereotypes"}]}
    with pytest.raises(UserError, match="axis with natural stereotypes 'eyes'"):
        Task.from_config(mine, data)
