"""Every axis that ships builds, and substitutes between any two of its groups."""

from __future__ import annotations

import itertools

import pytest

from countergen_edit.core.conf_path import conf_dir, read_config
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import Axis
from countergen_edit.data.templates import Template, expand
from countergen_edit.data.text.substitution import Substitution

NAMES = sorted(path.stem for path in (conf_dir() / "axis").glob("*.yaml"))
AXES = [name for name in NAMES if "file" not in read_config("axis", name)]
"""Without the entry that stands for a file of the user's own."""


def test_the_axes_of_the_design_ship() -> None:
    assert {"gender", "nationality", "race", "religion", "age"} <= set(AXES)


@pytest.mark.parametrize("name", AXES)
def test_a_shipped_axis_builds_and_swaps_any_two_groups(name: str) -> None:
    config = read_config("axis", name)
    axis = Axis.from_config(config)
    assert axis.name == name
    for pair in itertools.permutations(axis.groups, 2):
        swap = Substitution.from_config(axis, config["substitution"], pair)
        a, b = (axis.groups[group] for group in pair)
        for x, y in zip(a.all_names(), b.all_names(), strict=True):
            assert swap(f"{x} left.") == f"{y} left."
        for slot in a.forms:
            x, y = a.forms[slot], b.forms[slot]
            if slot not in ("subject", "object", "possessive", "reflexive"):
                assert swap(f"We saw the {x} there.") == f"We saw the {y} there."


CASES = [
    ("religion", None, "A Christian went to a church.", "A Muslim went to a mosque."),
    ("religion", None, "An imam and a priest", "A priest and an imam"),
    ("religion", ["hindu", "buddhist"], "Hindus at Diwali", "Buddhists at Vesak"),
    ("race", None, "A black man in a black car", "A white man in a black car"),
    ("race", ["white", "asian"], "Emily is White.", "Mei is Asian."),
    ("age", None, "An old man, 30 years old", "A young man, 30 years old"),
    ("nationality", None, "James is American.", "Omar is Egyptian."),
    ("nationality", ["egypt_female", "usa_male"], "Fatma saw her son.", "John saw his daughter."),
    (
        "nationality",
        ["usa_female", "mexico_female"],
        "Emma and María José in New York",
        "María José and Emma in Mexico City",
    ),
]


@pytest.mark.parametrize(("name", "groups", "text", "swapped"), CASES)
def test_other_axes_swap_terms_and_names(
    name: str, groups: list[str] | None, text: str, swapped: str
) -> None:
    config = read_config("axis", name)
    swap = Substitution.from_config(Axis.from_config(config), config["substitution"], groups)
    assert swap(text) == swapped
    assert swap(swapped) == text


def test_forms_fill_templates_where_an_axis_has_no_names() -> None:
    religion = Axis.from_config(read_config("axis", "religion"))
    pairs = expand(
        "faiths", [Template("The {leader} left the {place_of_worship}")], religion, "test"
    )
    assert [v.text for v in pairs.samples[0].variations] == [
        "The priest left the church",
        "The imam left the mosque",
    ]


def test_an_axis_without_groups_is_refused() -> None:
    with pytest.raises(UserError, match="'groups'"):
        Axis.from_config({"name": "team"})
    with pytest.raises(UserError, match="did you mean 'names'"):
        Axis.from_config({"name": "team", "groups": {"a": {"name": []}, "b": {}}})
