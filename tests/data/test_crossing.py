"""Crossed axes: every cell holds the people who stand in both groups, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from countergen_edit.core.conf_path import read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import SPLITS, Axis
from countergen_edit.data.axis_config import axis_config, crossed
from countergen_edit.data.task import Task


def crossing(*axes: str) -> Axis:
    return Axis.from_config(axis_config([*axes]))


def test_an_axis_whose_groups_say_where_they_stand_gives_the_cells() -> None:
    axis, nationality = crossing("gender", "nationality"), read_config("axis", "nationality")
    assert axis.name == "gender_nationality"
    assert axis.axes == ("gender", "nationality")
    assert set(axis.groups) == set(nationality["groups"])
    for name, group in axis.groups.items():
        country, gender = name.split("_")
        assert group.parts == {"gender": gender, "nationality": country}
        assert group.names["test"] == tuple(nationality["groups"][name]["names"]["test"])


def test_names_that_are_womens_and_mens_in_turn_go_to_their_cells() -> None:
    axis, race = crossing("gender", "race"), read_config("axis", "race")["groups"]
    assert len(axis.groups) == 8
    for name, group in axis.groups.items():
        gender, own = name.split("_")
        for split in SPLITS:
            every = race[own]["names"][split]
            assert list(group.names[split]) == every[gender == "male" :: 2]


def test_the_genders_that_the_race_axis_tells_agree_with_the_gender_axis() -> None:
    gender = Axis.from_config(read_config("axis", "gender"))
    known = {g: set(group.all_names()) for g, group in gender.groups.items()}
    wrong = [
        name
        for cell in crossing("gender", "race").groups.values()
        for name in cell.all_names()
        if name in known["male" if cell.parts["gender"] == "female" else "female"]
    ]
    assert wrong == []


def test_words_of_one_axis_and_people_of_the_other_make_a_cell() -> None:
    axis = crossing("religion", "gender")
    assert len(axis.groups) == 10
    cell = axis.groups["muslim_female"]
    assert cell.parts == {"religion": "muslim", "gender": "female"}
    assert (cell.forms["adjective"], cell.forms["person"]) == ("Muslim", "woman")
    assert cell.names == axis.groups["hindu_female"].names


def test_three_axes_are_crossed_one_after_the_other() -> None:
    axis = crossing("gender", "race", "religion")
    assert len(axis.groups) == 2 * 4 * 5
    assert set(axis.groups["male_black_jewish"].parts) == {"gender", "race", "religion"}


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["gender"], "write two axes to cross"),
        (["gender", "gender"], "not with itself"),
        (["gender", "natoinality"], "did you mean 'nationality'"),
    ],
)
def test_what_cannot_be_crossed_is_refused(axes: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        axis_config(axes)


def test_axes_that_nobody_stands_on_both_of_are_refused() -> None:
    def axis(name: str, *people: str) -> dict[str, Any]:
        return {"name": name, "groups": {p: {"names": {"test": [p.title()]}} for p in people}}

    with pytest.raises(UserError, match="nobody is named on both 'team' and 'town'"):
        crossed(axis("team", "jane", "john"), axis("town", "omar", "aya"))


def test_every_cell_is_asked_the_same_and_told_from_every_other() -> None:
    task = Task.from_config(["religion", "gender"], names={"fit": 3, "validation": 3, "test": 3})
    assert len(task.groups) == 10
    for data in (*task.fit, *task.validation, *task.test):
        assert data.groups == task.groups
        for sample in data.samples:
            texts = [v.text for v in sample.variations]
            assert len(set(texts)) == len(texts)


def test_all_cells_are_compared_unless_some_are_named() -> None:
    few = {"fit": 2, "validation": 2, "test": 2}
    assert len(Task.from_config(["gender", "race"], names=few).groups) == 8
    pair = ["female_black", "male_black"]
    assert Task.from_config(["gender", "race"], groups=pair, names=few).groups == tuple(pair)
