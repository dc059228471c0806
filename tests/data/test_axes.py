"""Shipped axes build and swap any two groups; crossed axes hold the people of both groups."""

import itertools

import pytest

from countergen_edit.core.conf_path import conf_dir, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import SPLITS, Axis, axis_config, crossed_axes
from countergen_edit.data.text.substitution import Substitution
from tests.data.test_substitution import TABLE

NAMES = sorted(path.stem for path in (conf_dir() / "axis").glob("*.yaml"))
AXES = [name for name in NAMES if "file" not in read_config("axis", name)]
"""Without the entry that stands for a file of the user's own."""


@pytest.mark.parametrize("name", AXES)
def test_a_shipped_axis_builds_and_swaps_any_two_groups(name):
    config = read_config("axis", name)
    axis = Axis.from_config(config)
    assert axis.name == name
    for pair in itertools.permutations(axis.groups, 2):
        swap = Substitution.from_config(axis, config["substitution"], pair)
        a, b = (axis.groups[group] for group in pair)
        for x, y in zip(a.all_names(), b.all_names(), strict=True):
            assert swap(f"{x} left.") == f"{y} left."
        for slot in {*a.forms} - {*swap.rules.pronoun_forms}:
            x, y = a.forms[slot], b.forms[slot]
            assert swap(f"We saw the {x} there.") == f"We saw the {y} there."


@pytest.mark.parametrize(("name", "groups", "text", "swapped"), TABLE["axes"])
def test_other_axes_swap_terms_and_names(name, groups, text, swapped):
    config = read_config("axis", name)
    swap = Substitution.from_config(Axis.from_config(config), config["substitution"], groups)
    assert swap(text) == swapped
    assert swap(swapped) == text


def test_a_misspelt_key_of_a_group_is_refused():
    with pytest.raises(UserError, match="did you mean 'names'"):
        Axis.from_config({"name": "team", "groups": {"a": {"name": []}, "b": {}}})


def crossing(*axes):
    return Axis.from_config(axis_config([*axes]))


def test_an_axis_that_states_other_axes_has_the_crossed_groups():
    axis, nationality = crossing("gender", "nationality"), read_config("axis", "nationality")
    assert (axis.name, axis.axes) == ("gender_nationality", ("gender", "nationality"))
    assert set(axis.groups) == set(nationality["groups"])
    for name, group in axis.groups.items():
        country, gender = name.split("_")
        assert group.parts == {"gender": gender, "nationality": country}
        assert group.names["test"] == tuple(nationality["groups"][name]["names"]["test"])


def test_alternating_names_go_to_their_crossed_groups():
    axis, race = crossing("gender", "race"), read_config("axis", "race")["groups"]
    assert len(axis.groups) == 8
    for name, group in axis.groups.items():
        gender, of_race = name.split("_")
        for split in SPLITS:
            every = race[of_race]["names"][split]
            assert list(group.names[split]) == every[gender == "male" :: 2]


def test_a_crossed_group_has_words_of_one_axis_and_names_of_the_other():
    axis = crossing("religion", "gender")
    assert len(axis.groups) == 10
    cell = axis.groups["muslim_female"]
    assert cell.parts == {"religion": "muslim", "gender": "female"}
    assert (cell.forms["adjective"], cell.forms["person"]) == ("Muslim", "woman")
    assert cell.names == axis.groups["hindu_female"].names


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["gender"], "write two axes to cross"),
        (["gender", "gender"], "not with itself"),
        (["gender", "natoinality"], "did you mean 'nationality'"),
        (["gender_es", "nationality"], "the languages 'es' and 'en'"),
    ],
)
def test_wrong_crossings_are_refused(axes, message):
    with pytest.raises(UserError, match=message):
        axis_config(axes)


def test_axes_without_common_names_are_refused():
    def axis(name, *people):
        return {"name": name, "groups": {p: {"names": {"test": [p.title()]}} for p in people}}

    with pytest.raises(UserError, match="no names are on both 'team' and 'town'"):
        crossed_axes(axis("team", "jane", "john"), axis("town", "omar", "aya"))
