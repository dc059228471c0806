"""Axis configs: files of one axis, crossings of several axes, and the data that an axis names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, require_known
from countergen_edit.data.axis import ENGLISH, SPLITS

CROSS = "cross"
"""The key of an axis config that lists the axes to cross."""
CROSSED_DATA = {"natural": "crossed", "testbed": "crossed_testbed"}
"""The default data of crossed axes, by the prompts of `texts`."""
OF_AXIS = "of_axis"
"""The data config, and its key, that takes every null key from the axis's own data."""
OWN = "own"
"""The value of `data.fit` that fits on a part of the user's prompts."""


def axis_config(value: object) -> dict[str, Any]:
    """The config of an axis given by name, file, mapping, or a list of axes to cross."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = {CROSS: value}
    content = config_of("axis", value)
    if CROSS not in content:
        return content
    axes = content.pop(CROSS)
    if not isinstance(axes, Sequence) or isinstance(axes, str) or len(axes) < 2:
        raise UserError(f"axis={axes!r}: write two axes to cross, such as [gender,nationality]")
    whole, *others = [axis_config(axis) for axis in axes]
    names = [str(config.get("name")) for config in (whole, *others)]
    if len(set(names)) < len(names):
        raise UserError(f"axis={[*names]}: an axis is crossed with another, not with itself")
    for other in others:
        whole = crossed_axes(whole, other)
    return {**whole, **content}


def data_of(
    axis: Mapping[str, Any], data: Mapping[str, Any], prompts: object = None
) -> tuple[dict[str, Any], frozenset[str]]:
    """The data config with its null keys filled from the data of the axis, and these keys.

    Null keys are filled where `data` has the key `of_axis`. The key `data` of the axis names one
    data config, or one for each value of `texts.prompts`, of which `prompts` is the model's.
    `UserError` if it names none.

    >>> data_of({"name": "x", "data": "drinks"}, {"of_axis": True, "facts": []})[0]["facts"]
    []
    """
    content = {key: value for key, value in data.items() if key != OF_AXIS}
    if content.get("fit") == OWN:  # a part of the user's prompts is the validation set too
        content["validation"] = content.get("validation") or []
    if not data.get(OF_AXIS):
        return content, frozenset()
    named = axis.get("data")
    if isinstance(named, Mapping):
        prompts = str(prompts or next(iter(named)))
        require_known("prompts of texts:", prompts, named)
        named = named[prompts]
    if not named:
        if all(content.get(split) is not None for split in SPLITS):
            return content, frozenset()
        raise UserError(
            f"axis {axis.get('name')!r} has no data of its own: name some, such as "
            f"data=FILE.yaml, or write data: FILE.yaml into the axis; "
            f"data.fit={OWN} fits on a part of your own prompts"
        )
    own, _ = data_of({"name": axis.get("name")}, config_of("data", named))
    taken = frozenset(key for key in own if content.get(key) is None)
    return content | {key: own[key] for key in taken}, taken


def crossed_axes(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The config of the axis whose groups are the intersections of two axes' groups.

    The names of an intersection are those of the axis that has names. Where both have, one axis
    must state the groups of its people on the other (`is`: one group, or several in turn), or they
    must share names. The first axis decides forms that both have.
    """
    axes = [*first.get("made_of", [first["name"]]), *second.get("made_of", [second["name"]])]
    language, other = (config.get("language", ENGLISH) for config in (first, second))
    if language != other:
        raise UserError(
            f"axes {axes} are in the languages {language!r} and {other!r}: cross axes of one"
        )
    groups = {
        cell.name: {"names": cell.names, "forms": cell.forms, "is": cell.where}
        for a, b in product(_cells(first), _cells(second))
        if (cell := _intersection(a, b)) is not None
    }
    if len(groups) < 2:
        raise UserError(
            f"no names are on both {first['name']!r} and {second['name']!r}: state in one of the "
            "axes the groups of its people on the other, as conf/axis/nationality.yaml does (is: …)"
        )
    content = {"name": "_".join(axes), "groups": groups, "made_of": axes, "data": CROSSED_DATA}
    content["language"] = language
    # An axis that states everything of the other has the same groups, and its words still swap.
    words = next((c for c in (first, second) if set(c["groups"]) == set(groups)), {})
    return content | {k: words[k] for k in ("substitution",) if k in words}


@dataclass(frozen=True)
class _Cell:
    """A group, with its groups on other axes."""

    name: str
    axes: tuple[str, ...]
    where: Mapping[str, Any]
    """Axis → group, or groups to which successive names belong, cyclically."""
    names: Mapping[str, Sequence[str]]
    forms: Mapping[str, str]

    @property
    def fixed(self) -> dict[str, str]:
        return {axis: group for axis, group in self.where.items() if isinstance(group, str)}


def _cells(config: Mapping[str, Any]) -> Iterator[_Cell]:
    own = tuple(config.get("made_of", [config["name"]]))
    for name, group in config["groups"].items():
        where = group.get("is", {})
        if len(own) == 1:
            where = {own[0]: name, **where}
        yield _Cell(name, own, where, group.get("names", {}), group.get("forms", {}))


def _intersection(a: _Cell, b: _Cell) -> _Cell | None:
    """The group of the people in both; None where there are none."""
    if any(a.fixed[axis] != b.fixed[axis] for axis in {*a.fixed} & {*b.fixed}):
        return None
    one, two = _within(a, b.fixed), _within(b, a.fixed)
    if not (any(one.names.values()) and any(two.names.values())):
        names = one.names if any(one.names.values()) else two.names
    elif {*b.axes} <= {*a.where}:
        names = one.names
    elif {*a.axes} <= {*b.where}:
        names = two.names
    else:
        names = {
            split: [name for name in one.names.get(split, ()) if name in two.names.get(split, ())]
            for split in SPLITS
        }
        if not all(names.values()):
            return None
    whole = [c.name for c, d in ((a, b), (b, a)) if {*d.axes} <= {*c.fixed}]
    name = whole[0] if whole else f"{a.name}_{b.name}"
    return _Cell(
        name, (*a.axes, *b.axes), {**one.where, **two.where}, names, {**b.forms, **a.forms}
    )


def _within(cell: _Cell, fixed: Mapping[str, str]) -> _Cell:
    """The cell with those of its alternating names that belong to some groups of other axes."""
    names, where = cell.names, dict(cell.where)
    for axis in [x for x in cell.where if x in fixed and x not in cell.fixed]:
        turns = where.pop(axis)
        names = {
            split: [n for i, n in enumerate(own) if turns[i % len(turns)] == fixed[axis]]
            for split, own in names.items()
        }
    return replace(cell, where=where, names=names)
