"""An axis of comparison: its groups, and the words each group brings into a sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from annotated_types import MinLen

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.typed import require, require_keys

NonEmpty = Annotated[str, MinLen(1)]
Split = Literal["fit", "validation", "test"]
SPLITS: tuple[Split, ...] = ("fit", "validation", "test")
ENGLISH = "en"
_KEYS = ("name", "language", "groups", "substitution", "data", "made_of")
GROUP_TYPES: Mapping[str, Any] = {
    "names": Mapping[str, Sequence[NonEmpty]],
    "forms": Mapping[str, NonEmpty],
    "is": Mapping[str, str | Sequence[str]],
}
ALL = "all"
"""Every group of an axis, where groups are chosen."""
NAME_COUNTS: Mapping[str, int] = {
    "fit": 40,
    "few": 10,
    "agreement": 8,
    "validation": 12,
    "test": 24,
}
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
        for key in config:
            require_known("axis key", key, _KEYS)
        for key in ("name", "groups"):
            if not config.get(key):
                raise UserError(f"an axis needs a {key!r}; this one holds {sorted(config)}")
        require(str, config["name"], "axis.name")
        require(Mapping[str, Mapping[str, Any]], config["groups"], "axis.groups")
        groups = {}
        for group_name, entry in config["groups"].items():
            kind, at = f"key of group {group_name!r}:", f"axis.groups.{group_name}."
            require_keys(entry, GROUP_TYPES, kind, at)
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
        """The axis with other names of each group and split."""
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
        of_group = (g.names.get("test", ()) for g in self.groups.values() if name in g.all_names())
        return tuple(own for own in next(of_group, ()) if own not in used)[:3]

    def of_how_many(self, compared: int) -> str:
        """A note where fewer groups are compared than the axis has; empty otherwise.

        >>> Axis("a", {g: Group(g, {}, {}) for g in "xyz"}).of_how_many(2)
        '2 of 3 groups; groups=all compares every pair'
        """
        if compared >= len(self.groups):
            return ""
        return f"{compared} of {len(self.groups)} groups; groups={ALL} compares every pair"
