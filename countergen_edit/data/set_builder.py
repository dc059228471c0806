"""The sets of a data config, with distinct names, for the groups that a task compares.

A set for more than two groups joins the sets of the first group with each of the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from countergen_edit.core.conf_path import PROMPT_FILES, conf_dir, config_of, read_config
from countergen_edit.core.errors import UserError, command
from countergen_edit.core.typed import require
from countergen_edit.data.axis import OWN, SPLITS, Axis, DoesNotFitError, NoFormsError, Split
from countergen_edit.data.counterfactual import CounterfactualSet, Sets, joined_sets
from countergen_edit.data.prompt_check import check_prompts
from countergen_edit.data.sources import SOURCES, load_set
from countergen_edit.data.subsets import NameDraw, round_robin, split_prompts, without_overlap
from countergen_edit.data.text.substitution import Substitution

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
    is_own: bool = field(default=False, compare=False)
    """Whether it holds prompts of the user."""

    def clashes(self, other: NamedSet) -> bool:
        """Whether rows would confuse the two. Validation and test sets may share a name."""
        together = self.split == other.split or "fit" in (self.split, other.split)
        return together and self.data.name == other.data.name and self.data != other.data


def distinctly_named(sets: Sequence[NamedSet]) -> list[NamedSet]:
    """The sets; default names that clash get their split. `UserError` if others clash."""
    distinct = [
        replace(one, data=replace(one.data, name=f"{one.data.name}_{one.split}"))
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
    return [*map(_entry, entries)]


def _entry(entry: Any) -> dict[str, Any]:
    require(str | Mapping[str, Any], entry, "data set")
    config = {"dataset": entry} if isinstance(entry, str) else dict(entry)
    if "dataset" in config:
        config = read_config("dataset", str(config.pop("dataset"))) | config
    return config


@dataclass(frozen=True)
class SetBuilder:
    """Builds sets for an axis and groups."""

    axis: Axis
    substitution: Substitution | None
    names: NameDraw
    groups: tuple[str, ...]
    default_name: str = TEMPLATES

    def load(self, entry: Mapping[str, Any], split: Split, key: str = "") -> NamedSet | None:
        """The set of an entry for all groups; None where it does not fit, and `if_fits` is set.

        Default names end in `key`, where it is given.
        """
        config = dict(entry)
        may_lack = config.pop("if_fits", False)
        other = config.pop("axis", None) or self.axis.name
        axis, words = self.axis, self.substitution
        pairs: list[Any] = [[self.groups[0], group] for group in self.groups[1:]]
        if other != axis.name:
            axis, words, pairs = Axis.from_config(config_of("axis", other)), None, [None]
        source = config.get("source")
        is_default = source == TEMPLATES and not config.get("name")
        if is_default:
            config["name"] = f"{self.default_name}_{key}" if key else self.default_name
        try:
            sets = [load_set(config, axis, words, split, self.names, pair) for pair in pairs]
            if (data := joined_sets(sets)) is None:
                raise DoesNotFitError(
                    f"set {sets[0].name!r} has no prompts that tell all of "
                    f"{', '.join(self.groups)} apart: name fewer groups, or give templates that do"
                )
        except DoesNotFitError:
            if may_lack:
                return None
            raise
        return NamedSet(split, data, is_default, source in FORMATS)

    def load_all(self, entries: Iterable[Mapping[str, Any]], split: Split, key: str = "") -> Sets:
        """The sets of entries under distinct names, without those that need not and do not fit."""
        loaded = [one for entry in entries if (one := self.load(entry, split, key))]
        return tuple(one.data for one in distinctly_named(loaded))

    def load_with_forms(
        self, entry: Mapping[str, Any], split: Split, key: str
    ) -> CounterfactualSet | None:
        """The set for the first two groups whose word forms differ; None as in `load`."""
        errors = []
        for pair in combinations(self.groups, 2):
            try:
                if one := replace(self, groups=pair).load(entry, split, key):
                    return one.data
            except NoFormsError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return None

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
        drawn = self.builder.load({**self.entry, "templates": templates, "people": people}, split)
        assert drawn is not None
        return drawn.data

    def sizes(self, split: Split, most: int) -> tuple[int, int, int]:
        """Numbers of templates and contents on record, and of people of a group, up to `most`."""
        samples = self.draw(split, MOST_CELLS, 1).samples
        frames, contents = {s.frame for s in samples}, {s.content for s in samples}
        return len(frames), len(contents), self.draw(split, 1, most).widest


def sets_of(builder: SetBuilder, content: Mapping[str, Any]) -> dict[str, Any]:
    """The sets of a data config, by the fields of a `Task`.

    `content` has the keys of `texts` where the data config has none. `UserError` if an entry is
    wrong, or two sets have one name.
    """
    fits_own = content.get("fit") == OWN
    content = {**content, "fit": []} if fits_own else content
    keys = (*SPLITS, "keep", "legitimate_differences", "other_axes")
    entries = {key: entries_of(content, key) for key in keys}
    prompts = [e for e in entries["test"] if fits_own and e.get("source") in FORMATS]
    entries["test"] = [entry for entry in entries["test"] if entry not in prompts]
    parts: list[NamedSet] = []
    if fits_own:
        if not (whole := builder.load_all(prompts, "test")):
            raise UserError(
                f"data.fit={OWN} fits on a part of prompts of yours, and there are none: write "
                f"data=FILE{PROMPT_FILES[0]} data.fit={OWN}"
            )
        splits = split_prompts(whole, builder.names.seed)
        parts = [NamedSet(split, data, is_own=True) for split in SPLITS for data in splits[split]]
    loaded: list[NamedSet] = []
    drawable: dict[str, Drawable] = {}
    for split, entry in ((s, e) for s in SPLITS for e in entries[s]):
        if one := builder.load(entry, split):
            loaded.append(one)
            parameters = inspect.signature(SOURCES.get(str(entry["source"]))).parameters
            drawn = {"templates", "people"}  # of sources that draw so many
            if split != "validation" and {*parameters} >= drawn and not drawn & {*entry}:
                drawable[one.data.name] = Drawable(builder, entry)
    sets = distinctly_named([*loaded, *parts])
    by_split: dict[str, Any] = {s: tuple(x.data for x in sets if x.split == s) for s in SPLITS}

    def without_parts(data: CounterfactualSet | None) -> CounterfactualSet | None:
        return without_overlap(data, [one.data for one in parts]) if data and parts else data

    keep = [without_parts(builder.load_with_forms(e, "fit", "keep")) for e in entries["keep"]]
    agreement: dict[Split, CounterfactualSet] = {}
    remarks: list[str] = []
    most = builder.names.counts.get("agreement")
    try:
        for split in MEASURED if content.get("agreement") else ():
            whole_set = builder.load_with_forms(_entry(content["agreement"]), split, "agreement")
            if data := without_parts(whole_set) or whole_set:
                agreement[split] = round_robin(data, most or data.widest)
    except NoFormsError as error:
        remarks.append(f"{error}: agreement is not a cost here")
    remarks += builder.prompt_remarks([*prompts, *entries["validation"], *entries["test"]])
    for entry in entries["other_axes"]:
        require(str, entry.get("axis"), "axis of a set of other_axes")
    own_axes = {builder.axis.name, *builder.axis.axes, *(data.axis for data in by_split["fit"])}
    foreign = [entry for entry in entries["other_axes"] if entry["axis"] not in own_axes]
    other_axes = builder.load_all(foreign, "test", "other_axes")
    differences = entries["legitimate_differences"]
    return {
        **by_split,
        "own": tuple(one.data for one in sets if one.split == "test" and one.is_own),
        "drawable": drawable,
        "keep": tuple(filter(None, keep)),
        "agreement": agreement,
        "legitimate_differences": {
            split: builder.load_all(differences, split, "legitimate_differences")
            for split in (MEASURED if differences else ())
        },
        "other_axes": tuple(data for data in other_axes if data.axis not in own_axes),
        "remarks": tuple(remarks),
    }
