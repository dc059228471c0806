"""The role of a fitting set says what becomes of it, and nothing with a role is measured on."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.data.set_builder import ROLES
from countergen_edit.data.task import Task


def said(name: str, *templates: str, **more: Any) -> dict[str, Any]:
    return {
        "source": "templates",
        "name": name,
        "templates": [*templates],
        "outputs": [" team"],
        **more,
    }


LEADS, RAN, MET = (
    said("leads", "{name} leads the", "The {person} leads the"),
    said("ran", "{name} ran the", "Her choir and {name} ran the"),
    said("met", "{name} met the", "We saw {name} at the"),
)
TEST = [said("paid", "{name} paid the")]


def task(*fit: dict[str, Any], **data: Any) -> Task:
    return Task.from_config("gender", {"fit": [*fit], "test": TEST, "keep": [], **data})


def names(sets: Any) -> list[str]:
    return [data.name for data in sets]


@pytest.mark.slow
@pytest.mark.parametrize("roles", [*permutations(ROLES)])
def test_every_set_goes_where_its_role_says(roles: tuple[str, ...]) -> None:
    sets = [LEADS, RAN, MET]
    made = task(*({**data, "role": role} for data, role in zip(sets, roles, strict=True)))
    of = dict(zip(roles, sets, strict=True))
    assert names(made.fit) == [of["erase"]["name"]]
    assert names(made.keep) == [of["keep"]["name"]]
    plain = task(of["background"]).fit[0]
    assert set(made.background) == {v.text for s in plain.samples for v in s.variations}
    assert len(set(made.background)) == len(made.background)
    assert made.weighed == (*made.neutral["fit"], *made.background)
    assert of["background"]["name"] not in names(made.every_set)


def test_a_set_without_a_role_is_erased() -> None:
    assert task(LEADS) == task({**LEADS, "role": "erase"})
    assert task(LEADS).background == ()


def test_sets_to_keep_stand_beside_those_of_keep_and_of_texts() -> None:
    keep = {**RAN, "role": "keep"}
    assert names(task(LEADS, keep, keep=[MET]).keep) == ["ran", "met"]
    assert names(task(LEADS, keep, keep=None).keep) == ["ran", "agreement_fit"]


def test_an_unknown_role_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"role of a set of data\.fit: 'kept': did you mean 'keep'"):
        task({**LEADS, "role": "kept"})
    for nothing in (None, ["keep"]):
        with pytest.raises(UserError, match="role of a set"):
            task({**LEADS, "role": nothing})


@pytest.mark.parametrize(
    "key", ["validation", "test", "keep", "legitimate_differences", "other_axes"]
)
def test_only_fitting_sets_have_roles(key: str) -> None:
    with pytest.raises(UserError, match=rf"role='keep' of a set of data\.{key}: only") as error:
        task(LEADS, **{key: [{**RAN, "role": "keep"}]})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize(
    ("background", "measured", "culprit"),
    [
        (LEADS, {**LEADS, "name": "other"}, "template '{name} leads the'"),
        (LEADS, {**RAN, "name": "leads"}, "are called 'leads'"),
        (said("b", "A {person} sat"), said("t", "a {person}  sat"), "'A {person} sat'"),
        (LEADS, said("t", "{name} and Olivia left"), "name 'Olivia'"),
    ],
)
def test_what_is_weighed_is_not_measured_on(
    split: str, background: dict[str, Any], measured: dict[str, Any], culprit: str
) -> None:
    with pytest.raises(UserError) as error:
        task(MET, {**background, "role": "background"}, **{split: [measured]})
    assert culprit in str(error.value)


@pytest.mark.parametrize(
    ("text", "culprit"),
    [("We saw  JANE paid the", None), ("Jane Paid the", "prompt"), ("Only Jane left", "name")],
)
def test_texts_given_by_hand_are_held_against_test_sets(text: str, culprit: str | None) -> None:
    every = Task.from_config("gender", {"test": TEST}, names=None)
    if culprit is None:
        assert Task(every.axis, every.groups, test=every.test, background=(text,)).background
        return
    with pytest.raises(UserError, match=rf"{culprit} .* is in text of role background"):
        Task(every.axis, every.groups, test=every.test, background=(text,))


def test_the_fingerprint_depends_on_roles_and_not_on_the_order() -> None:
    fitted, kept = {**RAN, "role": "keep"}, {**MET, "role": "background"}
    prints = {task(*order).fingerprint for order in permutations([LEADS, fitted, kept])}
    assert len(prints) == 1
    others = [task(LEADS), task(LEADS, fitted), task(LEADS, kept), task(LEADS, MET)]
    assert len({*prints, *(other.fingerprint for other in others)}) == 5
