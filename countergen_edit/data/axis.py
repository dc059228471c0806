"""An axis of comparison: its groups, and the words each group brings into a sentence.

An axis is read from a config, or crosses two others; its config names its data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Annotated, Any, Literal

from annotated_types import MinLen

from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.typed import require, require_keys

NonEmpty = Annotated[str, MinLen(1)]
Split = Literal["fit", "validation", "test"]
SPLITS: tuple[Split, ...] = ("fit", "validation", "test")
ENGLISH = "en"
_AXIS: Mapping[str, Any] = {
    "name": str,
    "language": str | None,
    "groups": Mapping[str, Mapping[str, Any]],
    "substitution": Any,
    "data": Any,
    "made_of": Sequence[str],
}
_GROUP: Mapping[str, Any] = {
    "names": Mapping[str, Sequence[NonEmpty]],
    "forms": Mapping[str, NonEmpty],
    "is": Mapping[str, str | Sequence[str]],
}
CROSS = "cross"
"""The key of an axis config that lists the two axes to cross."""
CROSSED_DATA = {"natural": "crossed", "testbed": "crossed_testbed"}
"""The default data of crossed axes, by the prompts of `texts`."""
OF_AXIS = "of_axis"
"""The data config, and its key, that takes every null key from the axis's own data."""
OWN = "own"
"""The value of `data.fit` that fits on a part of the user's prompts."""
ALL = "all"
"""Every group of an axis, where groups are chosen."""
NAME_COUNTS = {"fit": 40, "few": 10, "agreement": 8, "validation": 12, "test": 24}
"""Default numbers of names per group: enough to tell a group from its people."""


class DoesNotFitError(UserError):
    """A set cannot be made for these groups."""


class NoFormsError(DoesNotFitError):
    """The word forms of two groups do not differ, so that nothing needs to agree with either."""

    def __init__(self, axis: str, groups: Sequence[str], prompts: str = "its prompts") -> None:
        super().__init__(
            f"axis {axis!r} has no word forms, such as she and he, by which {prompts} tell "
            f"{groups[0]!r} from {groups[1]!r}"
        )


@dataclass(frozen=True)
class Group:
    """One side of an axis."""

    name: str
    names: Mapping[Split, tuple[str, ...]]
    """Names of people (or other fillers of the `{name}` slot) by split."""
    forms: Mapping[str, str] = field(default_factory=dict)
    """Slot → word: `subject`, `object`, `possessive`, `reflexive`, `person`, `parent`, …"""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Axis → group, for a group of crossed axes."""

    def all_names(self) -> tuple[str, ...]:
        return tuple(name for split in SPLITS for name in self.names.get(split, ()))


@dataclass(frozen=True)
class Axis:
    """Two groups or more that differ in one attribute, in the order in which they are compared."""

    name: str
    groups: Mapping[str, Group]
    made_of: tuple[str, ...] = ()
    """The axes that it crosses, if any."""
    language: str = ENGLISH
    """The language of its names and forms: a shipped one, or a folder of data files."""

    def __post_init__(self) -> None:
        if len(self.groups) < 2:
            raise UserError(
                f"axis {self.name!r} has {len(self.groups)} group(s): a comparison takes 2"
            )
        first = next(iter(self.groups.values()))
        for group in self.groups.values():
            if missing := set(first.forms) ^ set(group.forms):
                raise UserError(
                    f"axis {self.name!r}: groups {first.name!r} and {group.name!r} do not share "
                    f"the word forms {sorted(missing)}; give every group the same forms"
                )
            split_of: dict[str, str] = {}
            for split, name in ((s, name) for s, names in group.names.items() for name in names):
                if name in split_of:
                    raise UserError(
                        f"axis {self.name!r}: name {name!r} of group {group.name!r} is in both "
                        f"the {split_of[name]!r} and the {split!r} split"
                    )
                split_of[name] = split

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Axis:
        """An axis from the mapping of `conf/axis/*.yaml`; `UserError` for a wrong key or type."""
        require_keys(config, _AXIS, "axis key", "axis.")
        for key in ("name", "groups"):
            if not config.get(key):
                raise UserError(f"an axis needs a {key!r}; this one holds {sorted(config)}")
        groups = {}
        for group_name, entry in config["groups"].items():
            kind, at = f"key of group {group_name!r}:", f"axis.groups.{group_name}."
            require_keys(entry, _GROUP, kind, at)
            for split in entry.get("names", {}):
                require_known("split", split, SPLITS)
            groups[group_name] = Group(
                name=group_name,
                names={split: tuple(names) for split, names in entry.get("names", {}).items()},
                forms=dict(entry.get("forms", {})),
                parts={k: v for k, v in entry.get("is", {}).items() if isinstance(v, str)},
            )
        language = str(config.get("language") or ENGLISH)
        return cls(config["name"], groups, tuple(config.get("made_of", ())), language)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes on which its groups differ."""
        return self.made_of or (self.name,)

    def with_names(self, names: Callable[[Group, Split], Sequence[str]]) -> Axis:
        groups = {
            group.name: replace(group, names={s: tuple(names(group, s)) for s in group.names})
            for group in self.groups.values()
        }
        return replace(self, groups=groups)

    def chosen(self, groups: Sequence[str] | str | None = None) -> tuple[Group, ...]:
        """The groups to compare: by name, `all`, or the first two, of crossed axes all."""
        if groups == ALL or (groups is None and self.made_of):
            return tuple(self.groups.values())
        if groups is None:
            return self.pair()
        if isinstance(groups, str) or len(groups) < 2:
            raise UserError(
                f"groups={groups if isinstance(groups, str) else [*groups]!r}: write a list of 2 "
                f"texts or null; a longer list, or {ALL}, compares every pair"
            )
        return self._different([*groups])

    def pair(self, groups: Sequence[str] | str | None = None) -> tuple[Group, Group]:
        """The two groups to compare; the first two of the axis by default."""
        require(Sequence[str] | None, groups, "groups")
        a, b = self._different([*self.groups][:2] if groups is None else [*groups], most=2)
        return a, b

    def _different(self, names: list[str], most: int | None = None) -> tuple[Group, ...]:
        if len(set(names)) < max(2, len(names)) or len(names) > (most or len(names)):
            raise UserError(f"axis {self.name!r}: compare two different groups, not {names}")
        for name in names:
            require_known(f"group of axis {self.name!r}", name, self.groups)
        return tuple(self.groups[name] for name in names)

    def other_names(self, name: str, used: Collection[str] = ()) -> tuple[str, ...]:
        """Three test names of the group of a name that are not in use; fewer where it has fewer."""
        members = (g.names.get("test", ()) for g in self.groups.values() if name in g.all_names())
        return tuple(member for member in next(members, ()) if member not in used)[:3]

    def of_how_many(self, compared: int) -> str:
        """A note where fewer groups are compared than the axis has; empty otherwise.

        >>> Axis("a", {g: Group(g, {}, {}) for g in "xyz"}).of_how_many(2)
        '2 of 3 groups; groups=all compares every pair'
        """
        if compared >= len(self.groups):
            return ""
        return f"{compared} of {len(self.groups)} groups; groups={ALL} compares every pair"


def axis_config(value: object) -> dict[str, Any]:
    """The config of an axis given by name, file, mapping, or a list of two axes to cross."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = {CROSS: value}
    content = config_of("axis", value)
    if CROSS not in content:
        return content
    axes = content.pop(CROSS)
    if not isinstance(axes, Sequence) or isinstance(axes, str) or len(axes) != 2:
        raise UserError(f"axis={axes!r}: write two axes to cross, such as [gender,nationality]")
    first, second = (config_of("axis", axis) for axis in axes)
    return crossed_axes(first, second) | content


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
    defaults, _ = data_of({"name": axis.get("name")}, config_of("data", named))
    filled = frozenset(key for key in defaults if content.get(key) is None)
    return content | {key: defaults[key] for key in filled}, filled


def crossed_axes(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The config of the axis whose groups are the intersections of two axes' groups.

    The names of an intersection are those of the axis that has names. Where both have, one axis
    must state the groups of its people on the other (`is`: one group, or several in turn), or they
    must share names. The first axis decides forms that both have.
    """
    one, two = (Axis.from_config(config) for config in (first, second))
    axes = (one.name, two.name)
    if one.name == two.name:
        raise UserError(f"axis={[*axes]}: an axis is crossed with another, not with itself")
    if one.language != two.language:
        raise UserError(
            f"axes {[*axes]} are in the languages {one.language!r} and {two.language!r}: "
            "cross axes of one"
        )
    sides = (
        [
            replace(group, parts={axis.name: name, **config["groups"][name].get("is", {})})
            for name, group in axis.groups.items()
        ]
        for axis, config in ((one, first), (two, second))
    )
    groups = {}
    for a, b in product(*sides):
        if (cell := _intersection(a, b, axes)) is not None:
            people = {split: [*names] for split, names in cell.names.items()}
            groups[cell.name] = {"names": people, "forms": cell.forms, "is": cell.parts}
    if len(groups) < 2:
        raise UserError(
            f"no names are on both {one.name!r} and {two.name!r}: state in one of the "
            "axes the groups of its people on the other, as conf/axis/nationality.yaml does (is: …)"
        )
    content = {"name": "_".join(axes), "groups": groups, "made_of": [*axes], "data": CROSSED_DATA}
    content["language"] = one.language
    # An axis that states everything of the other has the same groups, and its words still swap.
    words = next((c for c in (first, second) if set(c["groups"]) == set(groups)), {})
    return content | {key: words[key] for key in words if key == "substitution"}


def _intersection(a: Group, b: Group, axes: tuple[str, str]) -> Group | None:
    """The group of the people in both, whose parts may be lists; None without people."""
    on_a, on_b = ({k: v for k, v in g.parts.items() if isinstance(v, str)} for g in (a, b))
    if any(on_a[axis] != on_b[axis] for axis in on_a.keys() & on_b.keys()):
        return None
    one, two = _within(a, on_b), _within(b, on_a)
    is_named = any(one.names.values())
    if not any(two.names.values()) or (is_named and axes[1] in a.parts):
        names = one.names
    elif not is_named or axes[0] in b.parts:
        names = two.names
    else:
        on_two = {split: {*two.names.get(split, ())} for split in SPLITS}
        names = {s: tuple(n for n in one.names.get(s, ()) if n in on_two[s]) for s in SPLITS}
        if not all(names.values()):
            return None
    name = a.name if axes[1] in on_a else b.name if axes[0] in on_b else f"{a.name}_{b.name}"
    return Group(name, names, {**b.forms, **a.forms}, {**one.parts, **two.parts})


def _within(group: Group, fixed: Mapping[str, str]) -> Group:
    """The group with those of its alternating names that belong to groups of other axes."""
    names, parts = group.names, dict[str, Any](group.parts)
    for axis in [x for x in parts if x in fixed and not isinstance(parts[x], str)]:
        turns = parts.pop(axis)
        names = {
            split: tuple(n for i, n in enumerate(people) if turns[i % len(turns)] == fixed[axis])
            for split, people in names.items()
        }
    return replace(group, names=names, parts=parts)
