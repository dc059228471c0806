"""A task: all that says what is asked of which people in which texts.

Comes in: an axis, and sets by split, from a config or made by hand. Goes out: a frozen `Task`.
Refused: text that is both fitted on and measured on, two different sets of one name.

The name of a model decides nothing here. Where a model's biases were planted, the truth travels in
its own directory, and `Task.planted_in` takes it from there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from countergen_edit.conf_path import read_config
from countergen_edit.data.axis import SPLITS, Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.neutral import from_config
from countergen_edit.data.set_names import Given, told_apart
from countergen_edit.data.sources import fingerprint, load_set
from countergen_edit.data.splits import check_leakage
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.data.thinning import few_texts, few_variations
from countergen_edit.errors import UserError, unknown

AGREEMENT: Mapping[str, Any] = {"source": "testbed_agreement", "axis": "gender"}
NEUTRAL_TEXT: Mapping[str, Any] = {"source": "testbed_neutral"}
"""What agreement and harm to neutral text are measured on unless a data config says otherwise."""
MEASURED: tuple[Split, ...] = ("validation", "test")
KEYS = (*SPLITS, "keep", "agreement", "neutral", "single_token_names")


@dataclass(frozen=True)
class Task:
    """What is asked of which people in which texts.

    Raises:
        UserError: a text is both fitted on and measured on.
    """

    axis: Axis
    groups: tuple[str, str]
    """The two groups that are compared, in their order."""
    fit: tuple[CounterfactualSet, ...] = ()
    """On these the groups are to be made equal."""
    validation: tuple[CounterfactualSet, ...] = ()
    """On these edits are chosen."""
    test: tuple[CounterfactualSet, ...] = ()
    keep: tuple[CounterfactualSet, ...] = ()
    """On these the model is to stay as it is; for erasers that can."""
    agreement: Mapping[Split, CounterfactualSet] = field(default_factory=dict)
    """Prompts whose i-th output is the form that agrees with the i-th group, by split."""
    neutral: Mapping[Split, tuple[str, ...]] = field(default_factory=dict)
    """Running text about nobody, by split: erasers may weigh that of `fit`."""
    planted: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(template, output) → planted R, where the truth is known."""
    planted_effect: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(template, output) → planted difference of the groups' mean log P in nats, where known."""
    substitution: Substitution | None = None
    """Swaps the groups in running text, where the axis says how."""
    name: str = ""
    """Tells tasks of one run apart; the axis's name unless given."""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.axis.name)
        measured = (*self.validation, *self.test)
        check_leakage(self.fit, measured)
        check_leakage(self.keep, (*measured, *self.agreement.values()))
        both = set(self.neutral.get("fit", ())) & set(self.neutral.get("test", ()))
        if both:
            raise UserError(f"neutral text {min(both)!r} is both fitted on and measured on")

    @property
    def measured(self) -> tuple[tuple[Split, tuple[CounterfactualSet, ...]], ...]:
        """The sets of which test figures are taken: test data, and what was fitted on."""
        return (("test", self.test), ("fit", self.fit))

    def sets(self, split: Split) -> tuple[CounterfactualSet, ...]:
        """The sets of one split."""
        by_split = {"fit": self.fit, "validation": self.validation, "test": self.test}
        return by_split[split]

    @property
    def every_set(self) -> tuple[CounterfactualSet, ...]:
        """All sets: fitted on, kept, measured, and those of agreement."""
        measured = (*self.fit, *self.keep, *self.validation, *self.test)
        return (*measured, *self.agreement.values())

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all the data."""
        return fingerprint(self.every_set)

    def with_truth(
        self,
        planted: Mapping[tuple[str, str], float],
        planted_effect: Mapping[tuple[str, str], float] | None = None,
    ) -> Task:
        """The task with what is known to be planted in the model that is asked."""
        effect = {} if planted_effect is None else dict(planted_effect)
        return replace(self, planted=dict(planted), planted_effect=effect)

    @property
    def most_names(self) -> int:
        """How many variations a group has in the widest validation set; 0 without such sets."""
        return max((data.widest for data in self.validation), default=0)

    def thinned(self, names: int, seed: int = 0) -> Task:
        """The task with so few validation names a group, and as small a share of neutral texts.

        What is fitted on and what is tested stay as they are. Few names are among more of them, so
        that measurements on samples that grow build on each other; the draw is the seed's.
        """
        share = names / max(self.most_names, 1)
        texts = self.neutral.get("validation", ())
        agreement, neutral = dict(self.agreement), dict(self.neutral)
        if "validation" in agreement:
            agreement["validation"] = few_variations(agreement["validation"], names, seed)
        if texts:
            neutral["validation"] = few_texts(texts, math.ceil(share * len(texts)), seed)
        return replace(
            self,
            validation=tuple(few_variations(data, names, seed) for data in self.validation),
            agreement=agreement,
            neutral=neutral,
        )

    @classmethod
    def from_config(
        cls,
        axis: str | Mapping[str, Any] = "gender",
        data: str | Mapping[str, Any] = "contexts",
        *,
        groups: Sequence[str] | None = None,
        name: str = "",
    ) -> Task:
        """The task that an axis config and a data config describe.

        Args:
            axis: a file's name under `conf/axis`, or what such a file holds.
            data: a file's name under `conf/data`, or what such a file holds: sets by split, each a
                name under `conf/dataset` or a mapping with its `source`.
            groups: the two groups; the axis's first two unless named.
            name: tells tasks of one run apart.

        Raises:
            UserError: a key or value is wrong, or a set cannot be made.
        """
        axis_config = read_config("axis", axis) if isinstance(axis, str) else axis
        content = read_config("data", data) if isinstance(data, str) else data
        for key in content:
            if key not in KEYS:
                raise unknown("data setting", key, KEYS)
        own = Axis.from_config(axis_config)
        a, b = (group.name for group in own.pair(groups))
        words = axis_config.get("substitution")
        substitution = Substitution.from_config(own, words) if words else None

        def load(entry: Any, split: Split, shared: Mapping[str, Any]) -> Given:
            mapping = {**shared, **_entry(entry)}
            other = mapping.pop("axis", None)
            if other is None or other == own.name:
                data = load_set(mapping, own, substitution, split)
            else:
                data = load_set(mapping, Axis.from_config(read_config("axis", other)), None, split)
            path = mapping.get("path")
            named_after = path if isinstance(path, str) and not mapping.get("name") else None
            return Given(split, data, named_after)

        pair = {} if groups is None else {"groups": [a, b]}
        entries = {key: _entries(content, key) for key in (*SPLITS, "keep")}
        sets = told_apart([load(entry, s, pair) for s in SPLITS for entry in entries[s]])
        by_split = {s: tuple(one.data for one in sets if one.split == s) for s in SPLITS}
        agreement = content.get("agreement", AGREEMENT)
        neutral = content.get("neutral", NEUTRAL_TEXT)
        return cls(
            axis=own,
            groups=(a, b),
            fit=by_split["fit"],
            validation=by_split["validation"],
            test=by_split["test"],
            keep=tuple(load(entry, "fit", pair).data for entry in entries["keep"]),
            agreement={s: load(agreement, s, {}).data for s in MEASURED} if agreement else {},
            neutral=from_config(neutral) if neutral else {},
            substitution=substitution,
            name=name,
        )


def _entries(content: Mapping[str, Any], key: str) -> Sequence[Any]:
    """The sets that a data config lists under a key."""
    entries = content.get(key) or []
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise UserError(f"data.{key}={entries!r}: write a list of sets")
    return entries


def _entry(entry: Any) -> dict[str, Any]:
    """A set as a data config names it, with the keys of its source."""
    if isinstance(entry, str):
        entry = {"dataset": entry}
    if not isinstance(entry, Mapping):
        raise UserError(f"a data set is a name or a mapping with its source, not {entry!r}")
    content = dict(entry)
    if "dataset" in content:
        content = read_config("dataset", str(content.pop("dataset"))) | content
    return content
