"""A task: the axis, the groups, and the sets and texts to fit on, keep, choose by and test on."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, require_known
from countergen_edit.data.axis import NAME_COUNTS, SPLITS, Axis, Split, axis_config, data_of
from countergen_edit.data.counterfactual import CounterfactualSet, Sets
from countergen_edit.data.natural import neutral_of
from countergen_edit.data.prompt_check import OutOfVocabulary, out_of_vocabulary, set_warnings
from countergen_edit.data.set_builder import TEMPLATES, Drawable, SetBuilder, entries_of, sets_of
from countergen_edit.data.sources import fingerprint
from countergen_edit.data.subsets import NameDraw, check_leakage, few_of, few_prompts, few_texts
from countergen_edit.data.text.substitution import Substitution

_TEXTS = ("agreement", "neutral", "keep", "other_axes", "prompts")
"""Keys of `texts`, which a data config may override."""
_KEYS = (*SPLITS, "legitimate_differences", *_TEXTS, "name")
HALF_WIDTH = "half_width"
"""The row of the half-width that a design led to, with the design in its detail."""
_LISTED = 3  # sets that a summary names; of more it gives the number


@dataclass(frozen=True)
class SetDesign:
    """The design of a test set, chosen by a pilot on validation data."""

    dataset: str
    cells: int
    """Templates with a content, each with people of its own."""
    templates: int
    contents: int
    people: int
    """Of each group in a cell."""
    passes: int
    """Prompts, each a forward pass."""
    pilot: int
    """Prompts of the pilot."""
    half_width: float
    """Expected half-width of the 95 % interval of the group effect, nats."""
    target: float
    """The half-width that was asked for, nats."""
    contents_needed: int | None
    """Number of contents that reaches the target where those on record do not; None otherwise."""
    components: Mapping[str, float] = field(default_factory=dict)
    """Variance components of the squared group effect, nats⁴."""


@dataclass(frozen=True)
class Task:
    """The data of an experiment on one axis."""

    axis: Axis
    groups: tuple[str, ...]
    """The groups that are compared, two or more, in their order."""
    fit: Sets = ()
    """Sets on which the groups are made equal."""
    validation: Sets = ()
    """Sets by which edits are chosen."""
    test: Sets = ()
    own: Sets = ()
    """Test sets with prompts of the user, on which FairPair and CID are measured."""
    keep: Sets = ()
    """Sets on which the model stays as it is, for erasers that can."""
    agreement: Mapping[Split, CounterfactualSet] = field(default_factory=dict)
    """Prompts whose i-th output is the form that agrees with the i-th group."""
    legitimate_differences: Mapping[Split, Sets] = field(default_factory=dict)
    """Sets of factual differences between groups: the model should not change on them."""
    neutral: Mapping[Split, tuple[str, ...]] = field(default_factory=dict)
    """Running neutral text; erasers may weigh that of `fit`."""
    other_axes: Sets = ()
    """Test sets of axes that nothing is fitted on, for off-target effects."""
    planted: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(template, output) → planted R, where the truth is known."""
    planted_effect: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(template, output) → planted difference of the groups' mean log P in nats, where known."""
    substitution: Substitution | None = None
    """Swaps the groups in running text, where the axis has word lists."""
    name: str = ""
    """Tells tasks of one run apart; the axis's name by default."""
    remarks: tuple[str, ...] = ()
    """Sentences about what the task lacks, and why."""
    warnings: tuple[str, ...] = ()
    """Sentences about what makes its figures doubtful, for every view of a run."""
    out_of_vocabulary: tuple[OutOfVocabulary, ...] = ()
    """Test sets out of the model's vocabulary: the axis's, left out; others if no text is in it."""
    vocabulary: frozenset[str] | None = None
    """The model's vocabulary, in lower case; None if unknown."""
    drawable: Mapping[str, Drawable] = field(default_factory=dict, compare=False, repr=False)
    """Fitting and test sets that can be drawn anew with other numbers of templates and people."""
    design: tuple[SetDesign, ...] = ()
    """How test sets were drawn, where a pilot chose it."""
    limit: int | None = field(default=None, compare=False)
    """Most prompts of each set in a quick try, sets of metrics included; None takes all."""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.axis.name)
        for data in self.other_axes:
            if data.axis in self.own_axes:
                raise UserError(
                    f"set {data.name!r} of other_axes is about {data.axis!r}, which is fitted on: "
                    f"name sets of axes other than {', '.join(sorted(self.own_axes))}"
                )
        for a, b in combinations(self.neutral, 2):
            if shared := set(self.neutral[a]) & set(self.neutral[b]):
                raise UserError(f"neutral text {min(shared)!r} stands in both {a!r} and {b!r}")

    def check_leakage(self) -> None:
        """Raise a `UserError` if a text is both fitted on and measured on."""
        measured = (*self.validation, *self.test)
        check_leakage(self.fit, (*measured, *self.legitimate_sets), self.axis)
        held_out = (*measured, *self.agreement.values(), *self.legitimate_sets)
        check_leakage(self.keep, held_out, self.axis)

    @property
    def own_axes(self) -> frozenset[str]:
        """The axes that are audited and fitted on."""
        return frozenset({self.axis.name, *self.axis.axes, *(data.axis for data in self.fit)})

    @property
    def pair(self) -> tuple[str, str]:
        return self.groups[0], self.groups[1]

    def sets(self, split: Split) -> Sets:
        return getattr(self, split)  # type: ignore[no-any-return]

    @property
    def legitimate_sets(self) -> Sets:
        return tuple(data for sets in self.legitimate_differences.values() for data in sets)

    @property
    def every_set(self) -> Sets:
        measured = (*self.fit, *self.keep, *self.validation, *self.test)
        return (*measured, *self.agreement.values(), *self.legitimate_sets, *self.other_axes)

    @property
    def names(self) -> dict[Split, dict[str, list[str]]]:
        """Split → group → the names in its sets."""
        names: dict[Split, dict[str, list[str]]] = {}
        for split in SPLITS:
            samples = [sample for data in self.sets(split) for sample in data.samples]
            people = {g: [v.name for s in samples for v in s.of(g)] for g in self.groups}
            names[split] = {g: [*dict.fromkeys(filter(None, people[g]))] for g in self.groups}
        return names

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.every_set)

    @property
    def weighed(self) -> tuple[str, ...]:
        """Neutral texts whose activations erasers weigh, and preserve where they can."""
        return self.neutral.get("fit", ())

    def thinned(self, share: float, seed: int = 0) -> Task:
        """The task with a share of its validation data, which is among a larger share."""
        return self._smaller(
            lambda data: few_of(data, share, seed),
            lambda texts: few_texts(texts, math.ceil(share * len(texts)), seed),
            ["validation"],
        )

    def limited(self, most: int, seed: int = 0) -> Task:
        """The task with at most `most` prompts of each set and texts of each split, for a try."""
        few = partial(few_prompts, most=most, seed=seed)
        task = self._smaller(few, lambda texts: few_texts(texts, most, seed), SPLITS)
        limited: dict[str, Any] = {"limit": most}
        limited |= {k: tuple(map(few, getattr(self, k))) for k in ("own", "keep", "other_axes")}
        return replace(task, **limited)

    def _smaller(
        self,
        few: Callable[[CounterfactualSet], CounterfactualSet],
        texts: Callable[[tuple[str, ...]], tuple[str, ...]],
        splits: Sequence[Split],
    ) -> Task:
        def of(by_split: Mapping[Split, Any], smaller: Callable[[Any], Any]) -> dict[Split, Any]:
            return {s: smaller(value) if s in splits else value for s, value in by_split.items()}

        changed: dict[str, Any] = {split: tuple(map(few, self.sets(split))) for split in splits}
        changed["agreement"] = of(self.agreement, few)
        changed["neutral"] = of(self.neutral, texts)
        differences = of(self.legitimate_differences, lambda sets: tuple(map(few, sets)))
        return replace(self, **changed, legitimate_differences=differences)

    def in_vocabulary(self, words: frozenset[str], keys: Collection[str]) -> Task:
        """The task without the sets of fields `keys` that are out of a model's vocabulary."""

        def covered(sets: Sequence[CounterfactualSet]) -> Sets:
            return tuple(data for data in sets if out_of_vocabulary(words, data) is None)

        changed: dict[str, Any] = {s: covered(self.sets(s)) for s in SPLITS if s in keys}
        if "legitimate_differences" in keys:
            differences = {s: covered(sets) for s, sets in self.legitimate_differences.items()}
            changed["legitimate_differences"] = differences if all(differences.values()) else {}
        lacking = filter(None, (out_of_vocabulary(words, data) for data in self.test))
        changed["out_of_vocabulary"] = tuple(x for x in lacking if "test" in keys or x.share == 0)
        return replace(self, **changed, vocabulary=words)

    @property
    def is_out_of_vocabulary(self) -> bool:
        """Whether the model lacks the words of every test set, or of every fitting set."""
        lacking = {one.data.name for one in self.out_of_vocabulary}
        return bool(lacking) and not (self.fit and {data.name for data in self.test} - lacking)

    def summary(self, fits: bool = True) -> str:
        """One sentence about the sets; of test sets alone where nothing is fitted."""
        tested = f"tests on {_listed(self.test)}."
        if not fits:
            return f"Nothing is fitted; {tested}"
        return (
            f"The run fits on {_listed(self.fit)}; keeps {_listed(self.keep)}; "
            f"chooses by {_listed(self.validation)}; {tested}"
        )

    @classmethod
    def from_config(
        cls,
        axis: str | Path | Mapping[str, Any] | Sequence[str | Path] = "gender",
        data: str | Path | Mapping[str, Any] = "of_axis",
        *,
        groups: Sequence[str] | str | None = None,
        name: str = "",
        texts: str | Path | Mapping[str, Any] = "testbed",
        names: Mapping[str, Any] | None = NAME_COUNTS,
        seed: int = 0,
    ) -> Task:
        """Build the task of an axis config and a data config.

        `UserError` if a key or value is wrong, or a set cannot be made.

        Parameters
        ----------
        axis : a name under `conf/axis`, a file, a mapping, or a list of two to cross.
        data : a name under `conf/data`, a file or a mapping: sets by split, each a name under
            `conf/dataset` or a mapping with its `source`. The axis's own by default.
        groups : two or more, of which every pair is compared, or `all`; by default the axis's
            first two, of crossed axes all.
        name : tells tasks of one run apart.
        texts : a name under `conf/texts`, a file or a mapping: agreement, neutral text, sets to
            keep and sets of other axes, where `data` has none.
        names : numbers of names per group to draw, by split; None takes all.
        seed : of the draw of names.
        """
        config = axis_config(axis)
        loaded = Axis.from_config(config)
        defaults = config_of("texts", texts)
        settings, _ = data_of(config, config_of("data", data), defaults.get("prompts"))
        for key in settings:
            require_known("data setting", key, _KEYS)
        for key in defaults:
            require_known("texts setting", key, _TEXTS)
        content = defaults | settings
        if settings.get("keep") is None:  # sets for many axes, of which some lack forms
            content["keep"] = [{**entry, "if_fits": True} for entry in entries_of(defaults, "keep")]
        compared = tuple(group.name for group in loaded.chosen(groups))
        words = config.get("substitution")
        substitution = Substitution.from_config(loaded, words) if words else None
        draw = NameDraw.from_config(names, seed)
        set_name = str(content.get("name") or TEMPLATES)
        builder = SetBuilder(loaded, substitution, draw, compared, set_name)
        neutral = content.get("neutral")
        task = cls(
            axis=loaded,
            groups=compared,
            neutral=neutral_of(neutral, loaded.language) if neutral else {},
            substitution=substitution,
            name=name,
            **sets_of(builder, content),
        )
        sets = (data for split in SPLITS for data in task.sets(split))
        return replace(task, warnings=tuple(set_warnings(sets)))


def _listed(sets: Sequence[CounterfactualSet]) -> str:
    if not sets:
        return "nothing"
    names = [data.name for data in sets[:_LISTED]]
    if more := len(sets) - len(names):
        names.append(f"{more} more")
    count = sum(len(data.samples) for data in sets)
    return f"{', '.join(names)} ({count} prompt{'' if count == 1 else 's'})"
