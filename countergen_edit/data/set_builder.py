"""The sets that entries of a data config describe, for the groups that a task compares.

Comes in: an axis, groups, and entries. Goes out: sets with their split, in which every group is
asked the same. Of more than two groups a set is made of each with the first, and these are joined:
whatever a source does for two groups, it does for all. Refused: what the sources refuse, an entry
that cannot be asked of these groups, but for one that says `if_fits: true`, which is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any

from countergen_edit.core.conf_path import PROMPT_FILES, config_of
from countergen_edit.core.errors import UserError
from countergen_edit.core.typed import require
from countergen_edit.data.axis import SPLITS, Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet, joined
from countergen_edit.data.entries import ROLES, Role, entries_of, entry_of, prompts_of, take_role
from countergen_edit.data.forms import DoesNotFitError, NoFormsError
from countergen_edit.data.own_parts import OWN, parted
from countergen_edit.data.people import People
from countergen_edit.data.prompt_check import check_prompts
from countergen_edit.data.set_names import Given, distinctly_named
from countergen_edit.data.sources import load_set
from countergen_edit.data.splits import apart, check_leakage
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.data.thinning import round_robin

MEASURED: tuple[Split, ...] = ("validation", "test")

FORMATS = tuple(suffix[1:] for suffix in PROMPT_FILES)
"""Sources of prompts that are the user's."""
TEMPLATES = "templates"
"""The source of sets that have no name of their own."""
IF_FITS = "if_fits"
"""The key of an entry that is left out where it cannot be asked of the groups."""


@dataclass(frozen=True)
class SetBuilder:
    """Who is asked."""

    axis: Axis
    substitution: Substitution | None
    people: People
    groups: tuple[str, ...] | None
    """None leaves the choice of two to each entry, which takes the axis's first unless it says."""
    called: str = TEMPLATES
    """What sets are called that nobody names."""

    def about(self, key: str) -> SetBuilder:
        """The same where nobody's sets are called after the key of the data config, too."""
        return replace(self, called=f"{self.called}_{key}")

    def given(self, entries: Iterable[tuple[Any, Split]]) -> list[Given]:
        """The sets of entries with their splits, without those that need not and do not fit."""
        every = (self.load(entry, split) for entry, split in entries)
        return [one for one in every if one is not None]

    def load(self, entry: Any, split: Split) -> Given | None:
        """The set of an entry, for all groups; None where it need not and does not fit.

        Raises:
            UserError: the entry is wrong, or what it names cannot be read.
            DoesNotFitError: it cannot be asked of the groups.
        """
        mapping = entry_of(entry)
        may_lack = bool(mapping.pop(IF_FITS, False))
        other = mapping.pop("axis", None)
        path = mapping.get("path")
        named = bool(mapping.get("name"))
        named_after = path if isinstance(path, str) and not named else None
        free = not named and mapping.get("source") == TEMPLATES
        try:
            if other is None or other == self.axis.name:
                data = self._of_all(mapping, split)
            else:
                axis = Axis.from_config(config_of("axis", other))
                data = load_set(mapping, axis, None, split, self.people)
        except DoesNotFitError:
            if may_lack:
                return None
            raise
        return Given(split, replace(data, name=self.called) if free else data, named_after, free)

    def remarks(self, entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Of files of the user's own, how many prompts have warnings, and what shows them."""
        for entry in entries:
            path = entry.get("path")
            if self.substitution is None or str(entry.get("source")) not in FORMATS:
                continue
            groups = entry.get("groups") or self.groups
            words = self.substitution.between(groups[:2]) if groups else self.substitution
            checked = check_prompts(str(path), words)
            flagged = [one for one in checked if one.findings]
            if flagged:
                yield (
                    f"{len(flagged)} of {len(checked)} prompts of {path} have warnings, such as "
                    f"{flagged[0].text!r}: {flagged[0].findings[0]}. All: countergen-edit check "
                    f"{path} axis={self.axis.name}"
                )

    def told(self, entry: Any, split: Split) -> CounterfactualSet:
        """The set of an entry for the first two groups whose words differ, as grammar needs.

        Raises:
            NoFormsError: those of no two groups do.
        """
        refusals = []
        for pair in combinations(self.groups, 2) if self.groups else [None]:
            own = replace(self, groups=pair)
            try:
                given = own.load(entry, split)
                assert given is not None
                return given.data
            except NoFormsError as error:
                refusals.append(error)
        raise refusals[0]

    def _of_all(self, mapping: Mapping[str, Any], split: Split) -> CounterfactualSet:
        if self.groups is None or "groups" in mapping:
            return load_set(mapping, self.axis, self.substitution, split, self.people)
        first, *others = self.groups
        sets = [
            load_set(
                {"groups": [first, other], **mapping},
                self.axis,
                self.substitution,
                split,
                self.people,
            )
            for other in others
        ]
        data = joined(sets)
        if data is None:
            raise DoesNotFitError(
                f"set {sets[0].name!r} asks nothing that tells all of "
                f"{', '.join(self.groups)} apart: name fewer groups, or give templates that do"
            )
        return data


def sets_of(builder: SetBuilder, content: Mapping[str, Any], own_keep: bool) -> dict[str, Any]:
    """The sets of a data config, by the fields of a `Task`.

    Args:
        builder: who is asked.
        content: the data config, with what `texts` says where it says nothing.
        own_keep: whether it names itself what is to be kept; what `texts` names may not fit.

    Raises:
        UserError: an entry is wrong, or two sets have one name.
    """
    keys = (*SPLITS, "keep", "legitimate_differences", "other_axes")
    fits_own = content.get("fit") == OWN
    content = {**content, "fit": []} if fits_own else content
    entries = {key: [entry_of(entry) for entry in entries_of(content, key)] for key in keys}
    roles = [take_role(entry, key) for key in keys for entry in entries[key]]
    mine = [entry for entry in entries["test"] if fits_own and entry.get("source") in FORMATS]
    entries["test"] = [entry for entry in entries["test"] if entry not in mine]
    parts = _own_parts(builder, mine) if fits_own else []

    def giving_way(data: CounterfactualSet) -> CounterfactualSet | None:
        """Without the people of prompts that were parted; None if nobody is left."""
        return apart(data, [one.data for one in parts]) if parts else data

    every = [(entry, s) for s in SPLITS for entry in entries[s]]
    asked = [(one, i) for i, e in enumerate(every) if (one := builder.load(*e)) is not None]
    sets = distinctly_named([*(one for one, _ in asked), *parts])
    by_split = {s: tuple(one.data for one in sets if one.split == s) for s in MEASURED}
    fit: dict[Role, list[CounterfactualSet]] = {role: [] for role in ROLES}
    for one, (_, i) in zip(sets, asked, strict=False):  # after these come parts of one's own
        if i < len(entries["fit"]):
            fit[roles[i]].append(one.data)
    own = [
        one.data
        for one, (_, i) in zip(sets, asked, strict=False)
        if one.split == "test" and every[i][0].get("source") in FORMATS
    ]
    own += [one.data for one in sets[len(asked) :] if one.split == "test"]
    fit["erase"] += [one.data for one in sets[len(asked) :] if one.split == "fit"]
    keep, agreement, remarks = [*fit["keep"]], dict[Split, CounterfactualSet](), []
    for entry in entries["keep"]:
        with nullcontext() if own_keep else suppress(NoFormsError):
            data = giving_way(builder.about("keep").told(entry, "fit"))
            keep += [data] if data else []
    try:
        for s in MEASURED if content.get("agreement") else ():
            told = builder.about("agreement").told(content["agreement"], s)
            data_of_split = giving_way(told) or told
            agreement[s] = round_robin(
                data_of_split, builder.people.agreement or data_of_split.widest
            )
    except NoFormsError as error:
        remarks.append(f"{error}: agreement is no cost here")
    remarks += builder.remarks([*mine, *(entry for s in MEASURED for entry in entries[s])])
    of_legitimate_differences = builder.about("legitimate_differences")
    legitimate_differences = {
        s: tuple(
            one.data
            for one in distinctly_named(
                of_legitimate_differences.given((e, s) for e in entries["legitimate_differences"])
            )
        )
        for s in MEASURED
        if entries["legitimate_differences"]
    }
    measured = (*by_split["validation"], *by_split["test"], *agreement.values())
    check_leakage(fit["background"], (*measured, *chain(*legitimate_differences.values())))
    axis = builder.axis
    own_axes = {axis.name, *axis.axes, *(data.axis for data in fit["erase"])}
    others = []
    for entry in entries["other_axes"]:
        if entry.get("axis") is None:
            raise UserError(f"a set of other_axes needs its 'axis'; this one has {[*entry]}")
        require(str, entry["axis"], "axis of a set of other_axes")
        if entry["axis"] not in own_axes:
            others += builder.about("other_axes").given([(entry, "test")])
    return {
        "fit": tuple(fit["erase"]),
        "validation": by_split["validation"],
        "test": by_split["test"],
        "own": tuple(own),
        "keep": tuple(keep),
        "background": prompts_of(fit["background"]),
        "agreement": agreement,
        "legitimate_differences": legitimate_differences,
        "other_axes": tuple(
            o.data for o in distinctly_named(others) if o.data.axis not in own_axes
        ),
        "remarks": tuple(remarks),
    }


def _own_parts(builder: SetBuilder, entries: Iterable[Mapping[str, Any]]) -> list[Given]:
    """The user's prompts as sets to fit on, choose by and test on, none of which share anything.

    Raises:
        UserError: there are none, or too few.
    """
    wholes = distinctly_named(builder.given((entry, "test") for entry in entries))
    if not wholes:
        raise UserError(
            f"data.fit={OWN} fits on a part of prompts of yours, and there are none: write "
            f"data=FILE{PROMPT_FILES[0]} data.fit={OWN}"
        )
    parts = parted([one.data for one in wholes], builder.people.seed)
    return [Given(split, data) for split in SPLITS for data in parts[split]]
