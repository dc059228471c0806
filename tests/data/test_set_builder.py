"""An axis brings its data, and of more than two groups each is asked what every other is."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from countergen_edit.core.conf_path import conf_dir, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis_config import data_of
from countergen_edit.data.counterfactual import CounterfactualSet, joined
from countergen_edit.data.task import Task

AXES = sorted(path.stem for path in (conf_dir() / "axis").glob("*.yaml"))
FEW = {"fit": 4, "few": 2, "agreement": 2, "validation": 3, "test": 4}
TEXTS = ("natural", "testbed")


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("axis", AXES)
def test_each_shipped_axis_has_data_and_a_cost_or_the_word_that_it_has_none(
    axis: str, texts: str
) -> None:
    task = Task.from_config(axis, texts=texts, names=FEW)
    assert task.fit
    assert task.validation
    assert task.test
    assert task.neutral  # perplexity and KL
    assert task.agreement or any("agreement is no cost" in remark for remark in task.remarks)


@pytest.mark.parametrize("axis", AXES)
def test_all_groups_of_an_axis_are_asked_the_same(axis: str) -> None:
    task = Task.from_config(axis, groups="all", names=FEW)
    assert list(task.groups) == list(read_config("axis", axis)["groups"])
    for data in (*task.fit, *task.validation, *task.test, *task.every_fact):
        assert data.groups == task.groups
        for sample in data.samples:
            assert len({len(sample.of(group)) for group in data.groups}) == 1


def test_what_a_pair_is_asked_among_all_it_is_asked_alone() -> None:
    groups = ["egypt_male", "usa_male", "mexico_male"]
    every = Task.from_config("nationality", groups=groups, names=FEW)
    for pair in combinations(groups, 2):
        alone = Task.from_config("nationality", groups=[*pair], names=FEW)
        for one, other in zip(every.test, alone.test, strict=True):
            paraphrases = {s.template: s for s in other.samples}
            for sample in one.between(*pair).samples:
                assert sample.variations == paraphrases[sample.template].variations


def test_a_file_of_texts_is_asked_of_every_group(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"input": "Christians go to a church.", "outputs": [" yes", " no"]}\n')
    data = {"test": [{"source": "jsonl", "path": str(path)}]}
    task = Task.from_config("religion", data, groups=["christian", "jewish", "hindu"])
    [sample] = task.test[0].samples
    assert [v.text for v in sample.variations] == [
        "Christians go to a church.",
        "Jews go to a synagogue.",
        "Hindus go to a mandir.",
    ]


def test_what_is_given_stands_in_the_place_of_what_the_axis_would_ask() -> None:
    test = [{"source": "testbed", "family": "traits"}]
    content, given = data_of(
        read_config("axis", "gender"), read_config("data", "of_axis") | {"test": test}
    )
    assert content["test"] == test
    assert content["fit"] == read_config("data", "contexts")["fit"]
    assert "fit" in given
    assert "test" not in given
    assert Task.from_config("gender") == Task.from_config("gender", "contexts")


def test_an_axis_without_data_says_what_to_write() -> None:
    axis = {"name": "team", "groups": {"a": {"names": {}}, "b": {"names": {}}}}
    with pytest.raises(UserError, match=r"write data: FILE\.yaml into the axis"):
        Task.from_config(axis)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["christian", "muslim", "jew"], "did you mean 'jewish'"),
        (["christian", "muslim", "christian"], "two different groups or more"),
        (["christian"], "write a list of 2 texts or null"),
    ],
)
def test_groups_that_cannot_be_compared_are_refused(groups: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Task.from_config("religion", groups=groups)


def test_an_entry_that_need_not_fit_is_left_out_and_another_is_refused() -> None:
    family: dict[str, Any] = {"source": "testbed", "family": "occupations"}
    paraphrases = {"source": "natural_stereotypes"}
    data = {"test": [paraphrases, {**family, "if_fits": True}]}
    assert len(Task.from_config("religion", data).test) == 1
    with pytest.raises(UserError, match="was planted on axis 'gender'"):
        Task.from_config("religion", {"test": [paraphrases, family]})


def test_sets_that_share_no_paraphrase_cannot_be_joined() -> None:
    def one(family: str, pair: list[str]) -> CounterfactualSet:
        data = {"test": [{"source": "natural_people", "family": family}]}
        return Task.from_config("race", data, groups=pair, names=FEW).test[0]

    assert joined([one("names", ["white", "black"]), one("words", ["white", "asian"])]) is None
