"""Axes that are crossed: the groups of people who stand in one group of each, as old women do.

Comes in: what axis files hold. Goes out: what one would hold whose groups are the cells of the
table, each with its names and words and where it stands (`is`). Whoever has names brings them: of
two axes that both do, one must say where its people stand on the other (`is` of its groups, a group
or several in turn), or they share names. Of a form that both have, that of the first axis is taken.
Refused: fewer than two axes, axes of which nobody stands on both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError
from countergen_edit.data.axis import SPLITS
from countergen_edit.data.axis_data import DATA

CROSS = "cross"
"""The key of an axis config that lists the axes to cross."""
CROSSED_DATA = "crossed"
"""The data of crossed axes, unless others are named."""
Content = Mapping[str, Any]


def axis_config(value: object) -> dict[str, Any]:
    """What an axis holds that is named, lies in a file, is given, or crosses several of these.

    Raises:
        UserError: there is no such axis, or axes cannot be crossed.
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = {CROSS: value}
    content = config_of("axis", value)
    if CROSS not in content:
        return content
    axes = content.pop(CROSS)
    if not isinstance(axes, Sequence) or isinstance(axes, str) or len(axes) < 2:
        raise UserError(
            f"axis={axes!r}: write two axes to cross, such as axis=[gender,nationality]"
        )
    configs = [axis_config(axis) for axis in axes]
    names = [str(config.get("name")) for config in configs]
    if len(set(names)) < len(names):
        raise UserError(f"axis={[*names]}: an axis is crossed with another, not with itself")
    whole = configs[0]
    for config in configs[1:]:
        whole = crossed(whole, config)
    return {**whole, **content}


def crossed(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """What the axis holds whose groups stand on two axes.

    Raises:
        UserError: nobody stands on both.
    """
    axes = [*first.get("made_of", [first["name"]]), *second.get("made_of", [second["name"]])]
    groups = {
        cell.name: cell.content
        for a, b in product(_groups(first), _groups(second))
        if (cell := a.meeting(b)) is not None
    }
    if len(groups) < 2:
        raise UserError(
            f"nobody is named on both {first['name']!r} and {second['name']!r}: say in one of the "
            "axes where its people stand on the other, as conf/axis/nationality.yaml does (is: …)"
        )
    content = {"name": "_".join(axes), "groups": groups, "made_of": axes, DATA: CROSSED_DATA}
    # Where one axis says all of the other, its groups are the cells, and its words still swap them.
    words = next((c for c in (first, second) if set(c["groups"]) == set(groups)), {})
    return content | {k: words[k] for k in ("substitution",) if k in words}


@dataclass(frozen=True)
class Cell:
    """A group of people with where they stand."""

    name: str
    axes: tuple[str, ...]
    parts: Mapping[str, str]
    """Axis → group."""
    alternating: Mapping[str, Sequence[str]]
    """Axis → the groups that names stand in, one after the other and from the start again."""
    names: Mapping[str, Sequence[str]]
    forms: Mapping[str, str]

    @property
    def content(self) -> dict[str, Any]:
        """As an axis file holds it."""
        where = {**self.parts, **self.alternating}
        return {"names": dict(self.names), "forms": dict(self.forms), "is": where}

    def meeting(self, other: Cell) -> Cell | None:
        """Those who stand in both; None where nobody does."""
        for axis in {*self.parts} & {*other.parts}:
            if self.parts[axis] != other.parts[axis]:
                return None
        one, two = self._of(other.parts), other._of(self.parts)
        names = self._names_with(other, one, two)
        if names is None:
            return None
        wholly = [c for c, d in ((self, other), (other, self)) if {*d.axes} <= {*c.parts}]
        return Cell(
            wholly[0].name if wholly else f"{self.name}_{other.name}",
            (*self.axes, *other.axes),
            {**one.parts, **two.parts},
            {**one.alternating, **two.alternating},
            names,
            {**other.forms, **self.forms},
        )

    def _of(self, parts: Mapping[str, str]) -> Cell:
        """Those of its people who stand where parts say, as far as names tell."""
        names, left = self.names, dict(self.alternating)
        for axis in {*left} & {*parts}:
            turns = left.pop(axis)
            names = {
                split: [n for i, n in enumerate(own) if turns[i % len(turns)] == parts[axis]]
                for split, own in names.items()
            }
        return Cell(self.name, self.axes, self.parts, left, names, self.forms)

    def _names_with(self, other: Cell, one: Cell, two: Cell) -> Mapping[str, Sequence[str]] | None:
        """The names of those in both, `one` and `two`: of the cell that says where they stand on
        the other's axes, else those that both have; None where both have names and share none."""
        if not (any(one.names.values()) and any(two.names.values())):
            return one.names if any(one.names.values()) else two.names
        for says, about, own in ((self, other, one), (other, self, two)):
            if {*about.axes} <= {*says.parts, *says.alternating}:
                return own.names
        shared: dict[str, Sequence[str]] = {
            split: [name for name in one.names.get(split, ()) if name in two.names.get(split, ())]
            for split in SPLITS
        }
        return shared if all(shared.values()) else None


def _groups(config: Content) -> Iterator[Cell]:
    own = tuple(config.get("made_of", [config["name"]]))
    for name, group in config["groups"].items():
        where = group.get("is", {})
        parts = {axis: value for axis, value in where.items() if isinstance(value, str)}
        if len(own) == 1:
            parts = {own[0]: name, **parts}
        turns = {axis: value for axis, value in where.items() if not isinstance(value, str)}
        yield Cell(name, own, parts, turns, group.get("names", {}), group.get("forms", {}))
