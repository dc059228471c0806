"""The sets of a data config, with distinct names, for the groups that a task compares.

A set for more than two groups joins the sets of the first group with each of the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal

from countergen_edit.core.conf_path import PROMPT_FILES, conf_dir, config_of, read_config
from countergen_edit.core.errors import UserError, command, require_known
from countergen_edit.core.typed import require
from countergen_edit.data.axis import OWN, SPLITS, Axis, DoesNotFitError, NoFormsError, Split
from countergen_edit.data.counterfactual import CounterfactualSet, joined_sets
from countergen_edit.data.prompt_check import check_prompts
from countergen_edit.data.sources import SOURCES, load_set
from countergen_edit.data.splits import split_prompts, without_overlap
from countergen_edit.data.subsets import NameDraw, round_robin
from countergen_edit.data.text.substitution import Substitution

Role = Literal["erase", "keep"]
"""On sets to `erase` the groups are made equal; on sets to `keep` the model stays as it is."""
ROLES: tuple[Role, ...] = ("erase", "keep")
MEASURED: tuple[Split, ...] = ("validation", "test")
FORMATS = tuple(suffix[1:] for suffix in PROMPT_FILES)
"""Sources of the user's prompts."""
MOST_CELLS = 300
TEMPLATES = "templates"
"""The source, and default name, of sets of templates."""


@dataclass(frozen=True)
class NamedSet:
    """A set of a split; its name may be the default of templates."""

    split: Split
    data: CounterfactualSet
    is_default: bool = False
    role: Role = "erase"
    is_own: bool = field(default=False, compare=False)
    """Whether it holds prompts of the user."""

    def clashes(self, other: NamedSet) -> bool:
        """Whether rows would confuse the two. Validation and test sets may share a name."""
        together = self.split == other.split or "fit" in (self.split, other.split)
        return together and self.data.name == other.data.name and self.data != other.data

    def renamed(self, name: str) -> NamedSet:
        """The same under another name."""
        return replace(self, data=replace(self.data, name=name))


def distinctly_named(sets: Sequence[NamedSet]) -> list[NamedSet]:
    """The sets; default names that clash get their split. `UserError` if others clash."""
    distinct = [
        one.renamed(f"{one.data.name}_{one.split}")
        if one.is_default and any(map(one.clashes, sets))
        else one
        for one in sets
    ]
    for a, b in combinations(distinct, 2):
        if a.clashes(b):
            where = " and ".join(dict.fromkeys(f"data.{one.split}" for one in (a, b)))
            raise UserError(
                f"two different sets of {where} are called {a.data.name!r}, by which their "
                "figures are named: give one of them a name of its own (name: …)"
            )
    return distinct


def entries_of(content: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The sets that a data config lists under a key, each with the keys of its source."""
    entries = content.get(key) or []
    require(Sequence[Any], entries, f"data.{key}")
    own = [_entry(entry) for entry in entries]
    for entry in own:
        if "role" in entry and key != "fit":
            raise UserError(
                f"role={entry['role']!r} of a set of data.{key}: only sets of data.fit have roles; "
                "leave it out"
            )
        require_known("role of a set of data.fit:", entry.get("role", "erase"), ROLES)
    return own


def _entry(entry: Any) -> dict[str, Any]:
    require(str | Mapping[str, Any], entry, "data set")
    content = {"dataset": entry} if isinstance(entry, str) else dict(entry)
    if "dataset" in content:
        content = read_config("dataset", str(content.pop("dataset"))) | content
    return content


@dataclass(frozen=True)
class SetBuilder:
    """Builds sets for an axis and groups."""

    axis: Axis
    substitution: Substitution | None
    names: NameDraw
    groups: tuple[str, ...]
    default_name: str = TEMPLATES

    def for_key(self, key: str) -> SetBuilder:
        """The same with default names that end in the key of the data config."""
        return replace(self, default_name=f"{self.default_name}_{key}")

    def load(self, entry: Mapping[str, Any], split: Split) -> NamedSet | None:
        """The set of an entry for all groups; None where it does not fit, and `if_fits` is set."""
        config = dict(entry)
        may_lack, role = bool(config.pop("if_fits", False)), config.pop("role", "erase")
        other, source = config.pop("axis", None) or self.axis.name, config.get("source")
        is_default = source == TEMPLATES and not config.get("name")
        try:
            if other == self.axis.name:
                data = self._for_all_groups(config, split)
            else:
                axis = Axis.from_config(config_of("axis", other))
                data = load_set(config, axis, None, split, self.names)
        except DoesNotFitError:
            if may_lack:
                return None
            raise
        one = NamedSet(split, data, is_default, role, is_own=source in FORMATS)
        return one.renamed(self.default_name) if is_default else one

    def load_all(
        self, entries: Iterable[tuple[Mapping[str, Any], Split]]
    ) -> tuple[CounterfactualSet, ...]:
        """The sets of entries under distinct names, without those that need not and do not fit."""
        loaded = [one for entry, split in entries if (one := self.load(entry, split)) is not None]
        return tuple(one.data for one in distinctly_named(loaded))

    def load_with_forms(self, entry: Mapping[str, Any], split: Split) -> CounterfactualSet | None:
        """The set for the first two groups whose word forms differ; None as in `load`."""
        errors = []
        for pair in combinations(self.groups, 2):
            try:
                if (one := replace(self, groups=pair).load(entry, split)) is not None:
                    return one.data
            except NoFormsError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return None

    def _for_all_groups(self, config: Mapping[str, Any], split: Split) -> CounterfactualSet:
        first, *others = self.groups
        context = (config, self.axis, self.substitution, split, self.names)
        sets = [load_set(*context, [first, other]) for other in others]
        data = joined_sets(sets)
        if data is None:
            raise DoesNotFitError(
                f"set {sets[0].name!r} has no prompts that tell all of "
                f"{', '.join(self.groups)} apart: name fewer groups, or give templates that do"
            )
        return data

    def prompt_remarks(self, entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """One remark for each file of the user whose prompts have warnings."""
        for entry in entries:
            path = entry.get("path")
            if self.substitution is None or str(entry.get("source")) not in FORMATS:
                continue
            checked = check_prompts(str(path), self.substitution.between(self.groups[:2]))
            flagged = [one for one in checked if one.findings]
            if flagged:
                is_shipped = (conf_dir() / "axis" / f"{self.axis.name}.yaml").is_file()
                axis = self.axis.name if is_shipped else "FILE.yaml"
                yield (
                    f"{len(flagged)} of {len(checked)} prompts of {path} have warnings, such as "
                    f"{flagged[0].line}: {flagged[0].findings[0]}. All: "
                    f"{command('check', path, f'axis={axis}')}"
                )


@dataclass(frozen=True)
class Drawable:
    """A set that can be drawn anew with other numbers of templates and people."""

    builder: SetBuilder
    entry: Mapping[str, Any]

    def draw(self, split: Split, templates: int, people: int) -> CounterfactualSet:
        """A set of so many templates with contents, and people of each group for each."""
        own = {**self.entry, "templates": templates, "people": people}
        one = self.builder.load(own, split)
        assert one is not None
        return one.data

    def sizes(self, split: Split, most: int) -> tuple[int, int, int]:
        """Numbers of templates and contents on record, and of people of a group, up to `most`."""
        samples = self.draw(split, MOST_CELLS, 1).samples
        frames, contents = {s.frame for s in samples}, {s.content for s in samples}
        return len(frames), len(contents), self.draw(split, 1, most).widest


def sets_of(builder: SetBuilder, content: Mapping[str, Any], own_keep: bool) -> dict[str, Any]:
    """The sets of a data config, by the fields of a `Task`.

    `content` has the keys of `texts` where the data config has none; its `keep` must fit where it
    is `own_keep`, of the data config.
    `UserError` if an entry is wrong, or two sets have one name.
    """
    fits_own = content.get("fit") == OWN
    content = {**content, "fit": []} if fits_own else content
    keys = (*SPLITS, "keep", "legitimate_differences", "other_axes")
    entries = {key: entries_of(content, key) for key in keys}
    prompts = [e for e in entries["test"] if fits_own and e.get("source") in FORMATS]
    entries["test"] = [entry for entry in entries["test"] if entry not in prompts]
    parts = list[NamedSet]()
    if fits_own:
        own = builder.load_all((entry, "test") for entry in prompts)
        if not own:
            raise UserError(
                f"data.fit={OWN} fits on a part of prompts of yours, and there are none: write "
                f"data=FILE{PROMPT_FILES[0]} data.fit={OWN}"
            )
        splits = split_prompts(own, builder.names.seed)
        parts = [NamedSet(split, data, is_own=True) for split in SPLITS for data in splits[split]]
    loaded, drawable = list[NamedSet](), dict[str, Drawable]()
    for split in SPLITS:
        for entry in entries[split]:
            if (one := builder.load(entry, split)) is not None:
                loaded.append(one)
                parameters = inspect.signature(SOURCES.get(str(entry["source"]))).parameters
                drawn = {"templates", "people"}  # of sources that draw so many
                if split != "validation" and {*parameters} >= drawn and not drawn & {*entry}:
                    drawable[one.data.name] = Drawable(builder, entry)
    sets = distinctly_named([*loaded, *parts])

    def of(split: Split, role: Role = "erase") -> tuple[CounterfactualSet, ...]:
        return tuple(one.data for one in sets if (one.split, one.role) == (split, role))

    def without_parts(data: CounterfactualSet) -> CounterfactualSet | None:
        return without_overlap(data, [one.data for one in parts]) if parts else data

    keep, agreement, remarks = [*of("fit", "keep")], dict[Split, CounterfactualSet](), []
    for entry in entries["keep"]:
        with nullcontext() if own_keep else suppress(NoFormsError):
            found = builder.for_key("keep").load_with_forms(entry, "fit")
            data = None if found is None else without_parts(found)
            keep += [data] if data else []
    try:
        for split in MEASURED if content.get("agreement") else ():
            entry = _entry(content["agreement"])
            whole = builder.for_key("agreement").load_with_forms(entry, split)
            if whole is None:
                continue
            data = without_parts(whole) or whole
            agreement[split] = round_robin(data, builder.names.agreement or data.widest)
    except NoFormsError as error:
        remarks.append(f"{error}: agreement is not a cost here")
    measured_entries = (entry for split in MEASURED for entry in entries[split])
    remarks += builder.prompt_remarks([*prompts, *measured_entries])
    differences, others = entries["legitimate_differences"], entries["other_axes"]
    for entry in others:
        require(str, entry.get("axis"), "axis of a set of other_axes")
    fit = of("fit")
    own_axes = {builder.axis.name, *builder.axis.axes, *(data.axis for data in fit)}
    foreign = builder.for_key("other_axes").load_all(
        (entry, "test") for entry in others if entry["axis"] not in own_axes
    )
    return {
        "fit": fit,
        "validation": of("validation"),
        "test": of("test"),
        "own": tuple(one.data for one in sets if one.split == "test" and one.is_own),
        "drawable": drawable,
        "keep": tuple(keep),
        "agreement": agreement,
        "legitimate_differences": {
            split: builder.for_key("legitimate_differences").load_all(
                (entry, split) for entry in differences
            )
            for split in (MEASURED if differences else ())
        },
        "other_axes": tuple(data for data in foreign if data.axis not in own_axes),
        "remarks": tuple(remarks),
    }
