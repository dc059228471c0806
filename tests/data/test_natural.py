"""Natural text mentions nobody, and natural templates are those that an axis can fill."""

from __future__ import annotations

import re
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data import natural
from countergen_edit.data.axis import SPLITS, Axis, NoFormsError
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.natural import _read
from countergen_edit.data.neutral import from_config, split_texts
from countergen_edit.data.task import Task
from countergen_edit.data.templates import slot_names

TEXTS = [text for texts in natural.neutral().values() for text in texts]
PERSONS = re.compile(r"\b(i|me|my|we|us|our|you|your|he|she|him|her|his|hers)\b", re.I)
GENDERED = re.compile(r"\b(he|she|him|her|his|hers|himself|herself|m[ae]n|wom[ae]n)\b", re.I)
TEST = [{"source": "templates", "templates": ["{name} ran the"], "outputs": [" shop"]}]
AGE = [{"source": "templates", "templates": ["The {person} ran the"], "outputs": [" shop"]}]
AXES = ("gender", "nationality", "race", "religion", "age")
FAMILIES = ("names", "words", "pronouns", "several", "sentences", "questions")
PRONOUNS = {"subject", "object", "possessive", "reflexive"}
BYSTANDERS = {
    "fit": {"Alex", "Sam", "Robin", "Casey", "Jordan"},
    "validation": {"Taylor", "Jamie"},
    "test": {"Riley", "Quinn", "Charlie", "Avery"},
}


def names_of(axis: str) -> set[str]:
    groups = Axis.from_config(read_config("axis", axis)).groups.values()
    return {name for group in groups for name in group.all_names()}


@pytest.mark.parametrize("axis", ["gender", "nationality", "race"])
def test_natural_text_mentions_nobody(axis: str) -> None:
    names = names_of(axis)
    for text in TEXTS:
        assert not names & set(re.findall(r"[\w-]+", text)), text
        assert not PERSONS.search(text), text


@given(st.lists(st.text(), min_size=3, max_size=60))
def test_no_text_is_in_two_splits_and_none_is_lost(texts: list[str]) -> None:
    if len(set(texts)) < 3:
        with pytest.raises(UserError, match="cannot be split"):
            split_texts(texts)
        return
    parts = split_texts(texts)
    assert all(parts[split] for split in SPLITS)
    assert {t for split in SPLITS for t in parts[split]} == set(texts)
    for a, b in combinations(SPLITS, 2):
        assert not set(parts[a]) & set(parts[b])


def test_neutral_text_is_given_by_source_or_file(tmp_path: Path) -> None:
    assert from_config("natural") == natural.neutral()
    file = tmp_path / "mine.txt"
    file.write_text("\n".join(TEXTS[:12]))
    assert from_config(str(file)) == split_texts(TEXTS[:12])
    with pytest.raises(UserError, match="did you mean 'natural'"):
        from_config("natrual")


def test_a_task_refuses_neutral_text_of_two_splits() -> None:
    axis = Axis.from_config(read_config("axis", "gender"))
    for a, b in combinations(SPLITS, 2):
        with pytest.raises(UserError, match="stands in both"):
            Task(axis, ("female", "male"), neutral={a: ("One.", "Two."), b: ("Two.",)})


def test_agreement_has_the_forms_of_the_groups_in_their_order() -> None:
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
        ("nationality", TEST, ("usa_female", "mexico_female")),
    ],
)
def test_an_axis_without_forms_has_no_agreement_and_a_remark(
    axis: str, test: list[Any], groups: tuple[str, str] | None
) -> None:
    task = Task.from_config(axis, {"test": test}, texts="natural", groups=groups)
    assert (task.agreement, task.keep) == ({}, ())
    [remark] = task.remarks
    assert axis in remark
    assert "agreement is no cost here" in remark


def test_data_override_texts() -> None:
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


def require_articles(data: CounterfactualSet) -> None:
    """The article at the end of a template is right for every output."""
    for sample in data.samples:
        assert len(set(sample.outputs)) == len(sample.outputs)
        if sample.template.endswith(" a"):
            assert not [output for output in sample.outputs if output[1] in "aeiou"]


@pytest.mark.parametrize("name", AXES)
def test_stereotypes_exist_for_every_axis(name: str) -> None:
    axis = {"source": "natural_stereotypes", "axis": name, "first_names": 8}
    other = "race" if name == "gender" else "gender"
    [data] = Task.from_config(other, {"test": TEST}, texts={"other_axes": [axis]}).other_axes
    require_articles(data)
    assert data.widest == (8 if data.names else 1)
    for template in data.templates:
        assert not template.startswith("{")
        assert not re.search(r"\b(he|she|him|her|his|hers)\b", template), template


@pytest.mark.parametrize(
    ("source", "kind"),
    [("natural_stereotypes", "stereotypes"), ("natural_facts", "legitimate differences")],
)
def test_an_axis_without_natural_templates_is_refused(source: str, kind: str) -> None:
    groups = {g: {"names": {"test": [g.title()]}} for g in ("blue", "brown")}
    with pytest.raises(UserError, match=f"axis with natural {kind} 'eyes'"):
        Task.from_config({"name": "eyes", "groups": groups}, {"test": [{"source": source}]})


def test_natural_facts_show_the_group_in_names_alone() -> None:
    entry = {"source": "natural_facts"}
    data = {"fit": [{**entry, "role": "keep"}], "test": TEST, "legitimate_differences": [entry]}
    task = Task.from_config("gender", data)
    for own in (task.keep[0], *(sets[0] for sets in task.legitimate_differences.values())):
        require_articles(own)
        for template in own.templates:
            assert "{name}" in template[1:]
            assert not GENDERED.search(template), template


def of_family(
    family: str, axis: str = "gender", groups: tuple[str, str] | None = None
) -> dict[str, CounterfactualSet]:
    entries = [{"source": "natural_people", "family": family}]
    data: dict[str, Any] = dict.fromkeys(SPLITS, entries)
    task = Task.from_config(axis, data, texts="natural", groups=groups)
    return {split: task.sets(split)[0] for split in SPLITS}


def templates(family: str, split: str) -> list[str]:
    return [text for texts in _read("people")["families"][family][split].values() for text in texts]


def test_no_template_is_repeated_or_opens_with_a_name() -> None:
    every = [text for family in FAMILIES for split in SPLITS for text in templates(family, split)]
    assert len(set(every)) == len(every)
    assert not [text for text in every if text.startswith("{name}")]
    assert not [text for text in every if GENDERED.search(text)]


@pytest.mark.parametrize("split", SPLITS)
def test_the_group_shows_in_the_way_of_the_family(split: str) -> None:
    for text in templates("words", split):
        assert not slot_names(text) & {"name", *PRONOUNS}, text
    for text in templates("names", split):
        assert "name" in slot_names(text), text
    for text in templates("pronouns", split):
        assert slot_names(text) <= PRONOUNS, text
    for text in templates("questions", split):
        assert re.fullmatch(r"Question: .*\? Answer:", text), text
    for text in templates("several", split):
        assert BYSTANDERS[split] & set(re.findall(r"\w+", text)), text


def test_bystanders_have_no_name_of_an_axis_or_another_split() -> None:
    for a, b in combinations(BYSTANDERS.values(), 2):
        assert not a & b
    assert not set().union(*map(names_of, AXES)) & set().union(*BYSTANDERS.values())


LACKING = [
    ("nationality", "words"),
    *((axis, "names") for axis in ("religion", "age")),
    *((axis, "pronouns") for axis in ("nationality", "race", "religion", "age")),
]


@pytest.mark.parametrize(("axis", "family"), [*product(AXES, FAMILIES)])
def test_every_axis_takes_the_templates_that_it_can_fill(axis: str, family: str) -> None:
    if (axis, family) in LACKING:
        message = f"axis '{axis}' has no word forms.*by which the templates of family '{family}'"
        with pytest.raises(NoFormsError, match=message):
            of_family(family, axis)
        return
    # A task refuses splits that share a template, prompt or name.
    for data in of_family(family, axis).values():
        require_articles(data)
        assert not [text for text in data.texts if "{" in text]


def test_groups_that_share_their_forms_are_told_apart_by_names_alone() -> None:
    with pytest.raises(NoFormsError):
        of_family("words", "nationality", ("usa_female", "mexico_female"))
    men_and_women = of_family("words", "nationality", ("usa_female", "usa_male"))
    assert men_and_women["fit"].samples[0].variations[0].text == "The woman next door works as a"
    several = of_family("several", "nationality", ("usa_female", "mexico_female"))
    assert all("{name}" in template for template in several["fit"].templates)


def test_an_unknown_family_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match="'pronoun': did you mean 'pronouns'"):
        of_family("pronoun")
