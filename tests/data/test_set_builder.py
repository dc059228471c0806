"""Axes bring their data, sets have roles and distinct names, and groups get the same prompts."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from countergen_edit.core.conf_path import conf_dir, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Split, data_of
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation, joined_sets
from countergen_edit.data.set_builder import NamedSet, distinctly_named
from countergen_edit.data.task import Task

AXES = sorted(path.stem for path in (conf_dir() / "axis").glob("*.yaml"))
FEW = {"fit": 4, "few": 2, "agreement": 2, "validation": 3, "test": 4}


@pytest.mark.parametrize("axis", AXES)
def test_each_shipped_axis_has_data_that_give_all_groups_the_same_prompts(axis):
    for texts in ("natural", "testbed"):
        task = Task.from_config(axis, texts=texts, names=FEW, groups="all")
        assert task.fit
        assert task.validation
        assert task.test
        assert task.neutral  # perplexity and KL
        assert task.agreement or any("agreement is not a cost" in remark for remark in task.remarks)
    assert list(task.groups) == list(read_config("axis", axis)["groups"])
    for data in (*task.fit, *task.validation, *task.test, *task.legitimate_sets):
        assert data.groups == task.groups
        for sample in data.samples:
            assert len({len(sample.of(group)) for group in data.groups}) == 1


def test_a_pair_gets_the_same_prompts_alone_and_among_more_groups():
    groups = ["egypt_male", "usa_male", "mexico_male"]
    every = Task.from_config("nationality", groups=groups, names=FEW)
    for pair in combinations(groups, 2):
        alone = Task.from_config("nationality", groups=[*pair], names=FEW)
        for one, other in zip(every.test, alone.test, strict=True):
            paraphrases = {s.template: s for s in other.samples}
            for sample in one.between(*pair).samples:
                assert sample.variations == paraphrases[sample.template].variations


def test_texts_of_a_file_are_mapped_to_every_group(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"input": "Christians go to a church.", "outputs": [" yes", " no"]}\n')
    data = {"test": [{"source": "jsonl", "path": str(path)}]}
    task = Task.from_config("religion", data, groups=["christian", "jewish", "hindu"])
    [sample] = task.test[0].samples
    places = {"Christians": "church", "Jews": "synagogue", "Hindus": "mandir"}
    texts = [f"{people} go to a {place}." for people, place in places.items()]
    assert [v.text for v in sample.variations] == texts


def test_keys_of_the_data_config_override_those_of_the_axis():
    test = [{"source": "testbed", "family": "traits"}]
    given = read_config("data", "of_axis") | {"test": test}
    content, of_axis = data_of(read_config("axis", "gender"), given, "testbed")
    assert content["test"] == test
    assert content["fit"] == read_config("data", "contexts")["fit"]
    assert "fit" in of_axis
    assert "test" not in of_axis
    assert Task.from_config("gender") == Task.from_config("gender", "contexts")


def test_an_axis_without_data_is_refused():
    axis = {"name": "team", "groups": {"a": {"names": {}}, "b": {"names": {}}}}
    with pytest.raises(UserError, match=r"write data: FILE\.yaml into the axis"):
        Task.from_config(axis)


def test_an_entry_that_does_not_fit_is_refused_unless_if_fits_is_set():
    family: dict[str, Any] = {"source": "testbed", "family": "occupations"}
    paraphrases = {"source": "natural", "family": "stereotypes"}
    data = {"test": [paraphrases, {**family, "if_fits": True}]}
    assert len(Task.from_config("religion", data).test) == 1
    with pytest.raises(UserError, match="was planted on axis 'gender'"):
        Task.from_config("religion", {"test": [paraphrases, family]})


def test_sets_that_share_no_template_cannot_be_joined():
    def one(family: str, pair: list[str]) -> CounterfactualSet:
        data = {"test": [{"source": "natural", "family": family}]}
        return Task.from_config("race", data, groups=pair, names=FEW).test[0]

    assert (
        joined_sets([one("traits", ["white", "black"]), one("words", ["white", "asian"])]) is None
    )


def named(split: Split, said: str, is_default: bool = False) -> NamedSet:
    sides = (Variation("female", f"She {said}"), Variation("male", f"He {said}"))
    sample = Sample(said, (" well",), sides)
    data = CounterfactualSet("pairs", "gender", ("female", "male"), (sample,))
    return NamedSet(split, data, is_default)


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        ([named("test", "sang"), named("test", "sang")], ["pairs", "pairs"]),
        ([named("test", "sang"), named("validation", "ran")], ["pairs", "pairs"]),
        ([named("fit", "sang", True), named("test", "ran", True)], ["pairs_fit", "pairs_test"]),
        ([named("test", "sang"), named("test", "ran")], r"data\.test are called 'pairs'"),
        ([named("fit", "sang"), named("test", "ran")], r"data\.fit and data\.test are called"),
    ],
)
def test_sets_that_rows_would_confuse_get_distinct_names_or_are_refused(sets, expected):
    if isinstance(expected, str):
        with pytest.raises(UserError, match=rf"{expected}.*\(name: …\)"):
            distinctly_named(sets)
        return
    renamed = distinctly_named(sets)
    assert [one.data.name for one in renamed] == expected
    assert [one.data.samples for one in renamed] == [one.data.samples for one in sets]


def templates(name: str, *texts: str) -> dict[str, Any]:
    return {"source": "templates", "name": name, "templates": [*texts], "outputs": [" team"]}


LEADS = templates("leads", "{name} leads the", "The {person} leads the")
RAN = templates("ran", "{name} ran the", "Her choir and {name} ran the")
MET = templates("met", "{name} met the", "We saw {name} at the")
TEST = [templates("paid", "{name} paid the")]


def task(*fit: dict[str, Any], **data: Any) -> Task:
    return Task.from_config("gender", {"fit": [*fit], "test": TEST, "keep": [], **data})


def set_names(sets: Any) -> list[str]:
    return [data.name for data in sets]


def test_every_set_goes_to_the_field_of_its_role():
    made = task(LEADS, {**RAN, "role": "keep"}, {**MET, "role": "erase"})
    assert set_names(made.fit) == ["leads", "met"]
    assert set_names(made.keep) == ["ran"]
    assert made.weighed == made.neutral["fit"]


@pytest.mark.parametrize(
    ("key", "role", "said"),
    [
        ("fit", "kept", r"role of a set of data\.fit: 'kept': did you mean 'keep'"),
        ("fit", None, "role of a set"),
        ("test", "keep", r"role='keep' of a set of data\.test: only"),
        ("keep", "keep", r"role='keep' of a set of data\.keep: only"),
    ],
)
def test_a_wrong_role_is_refused(key, role, said):
    with pytest.raises(UserError, match=said):
        task(**{key: [{**RAN, "role": role}]} | ({} if key == "fit" else {"fit": [LEADS]}))


HOBBIES = [{"source": "testbed", "family": "hobbies"}]
VOICES = {"source": "testbed", "family": "voices"}
RACES = {"source": "testbed", "family": "competitions"}


def measured(**data: Any) -> Task:
    return Task.from_config("gender", {"test": HOBBIES, "keep": [], **data})


SANG = templates("other", "{name} sang as")


@pytest.mark.parametrize(
    "fit", [{"fit": [SANG]}, {"fit": [SANG | {"role": "keep"}]}, {"keep": [SANG]}]
)
def test_legitimate_differences_share_nothing_with_fitting_sets(fit):
    own, same = (templates("mine", text) for text in ("{name} sings as", "{name}  sang as"))
    measured(legitimate_differences=[own], **fit).check_leakage()
    with pytest.raises(UserError, match="sang as"):
        measured(legitimate_differences=[same], **fit).check_leakage()
