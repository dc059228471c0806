"""A task: all that says what is asked of which people in which texts.

Comes in: an axis, and sets by split, from a config or made by hand. Goes out: a frozen `Task`.
Refused: text that is both fitted on and measured on, two different sets of one name.

The name of a model decides nothing here. Where a model's biases were planted, the truth travels in
its own directory, and `Task.planted_in` takes it from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from countergen_edit.core.conf_path import config_of
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.axis import SPLITS, Axis, Split
from countergen_edit.data.axis_data import OF_AXIS, data_of
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.crossing import axis_config
from countergen_edit.data.neutral import from_config
from countergen_edit.data.out_of_vocabulary import OutOfVocabulary
from countergen_edit.data.people import DRAWN, People
from countergen_edit.data.set_builder import TEMPLATES, SetBuilder, sets_of
from countergen_edit.data.sources import fingerprint
from countergen_edit.data.spacing import spacing_warnings
from countergen_edit.data.splits import check_leakage, check_texts
from countergen_edit.data.text.substitution import Substitution
from countergen_edit.data.thinning import few_prompts, few_texts, few_variations

MEASURED: tuple[Split, ...] = ("validation", "test")
TEXTS = ("agreement", "neutral", "keep", "other_axes")
"""What `texts` says unless a data config says otherwise."""
KEYS = (*SPLITS, "legitimate_differences", *TEXTS, "single_token_names", "name")


@dataclass(frozen=True)
class Task:
    """What is asked of which people in which texts.

    Raises:
        UserError: a text is both fitted on and measured on, or an axis that is fitted on stands
            among the others.
    """

    axis: Axis
    groups: tuple[str, ...]
    """The groups that are compared, two or more, in their order."""
    fit: tuple[CounterfactualSet, ...] = ()
    """On these the groups are to be made equal."""
    validation: tuple[CounterfactualSet, ...] = ()
    """On these edits are chosen."""
    test: tuple[CounterfactualSet, ...] = ()
    own: tuple[CounterfactualSet, ...] = ()
    """The test sets that are prompts of the user's own, on which FairPair and CID are measured."""
    keep: tuple[CounterfactualSet, ...] = ()
    """On these the model is to stay as it is; for erasers that can."""
    background: tuple[str, ...] = ()
    """Texts about people that erasers weigh like neutral text, and nothing is measured on."""
    agreement: Mapping[Split, CounterfactualSet] = field(default_factory=dict)
    """Prompts whose i-th output is the form that agrees with the i-th group, by split."""
    legitimate_differences: Mapping[Split, tuple[CounterfactualSet, ...]] = field(
        default_factory=dict
    )
    """What people differ in by fact, by split: prompts on which the model should not move."""
    neutral: Mapping[Split, tuple[str, ...]] = field(default_factory=dict)
    """Running neutral text, by split: erasers may weigh that of `fit`."""
    other_axes: tuple[CounterfactualSet, ...] = ()
    """Test sets of axes that nothing is fitted on: what an edit does to them is measured all the
    same. Their names may be those of other sets, since another difference is measured."""
    planted: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(template, output) → planted R, where the truth is known."""
    planted_effect: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(template, output) → planted difference of the groups' mean log P in nats, where known."""
    substitution: Substitution | None = None
    """Swaps the groups in running text, where the axis says how."""
    name: str = ""
    """Tells tasks of one run apart; the axis's name unless given."""
    remarks: tuple[str, ...] = ()
    """What the task lacks, and why: a sentence each."""
    warnings: tuple[str, ...] = ()
    """What makes its figures doubtful: a sentence each, which stands in every view of a run."""
    out_of_vocabulary: tuple[OutOfVocabulary, ...] = ()
    """Test sets that are left out, as the model that is asked was never taught their words."""
    vocabulary: frozenset[str] | None = None
    """Every word that the model which is asked was taught, in small letters; None of one that does
    not say."""

    limit: int | None = field(default=None, compare=False)
    """Most prompts of each set in a quick try, of those too that metrics bring; None takes all."""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.axis.name)
        measured = (*self.validation, *self.test)
        check_leakage(self.fit, (*measured, *self.every_fact))
        held_out = (*measured, *self.agreement.values(), *self.every_fact)
        check_leakage(self.keep, held_out)
        check_texts(self.background, held_out)
        for data in self.other_axes:
            if data.axis in self.own_axes:
                raise UserError(
                    f"set {data.name!r} of other_axes is about {data.axis!r}, which is fitted on: "
                    f"name sets of axes other than {', '.join(sorted(self.own_axes))}"
                )
        for a, b in combinations(self.neutral, 2):
            if both := set(self.neutral[a]) & set(self.neutral[b]):
                raise UserError(f"neutral text {min(both)!r} stands in both {a!r} and {b!r}")

    @property
    def own_axes(self) -> frozenset[str]:
        """The axes that are audited and fitted on."""
        return frozenset({self.axis.name, *self.axis.axes, *(data.axis for data in self.fit)})

    @property
    def pair(self) -> tuple[str, str]:
        """The first two groups, for what compares two texts."""
        return self.groups[0], self.groups[1]

    @property
    def measured(self) -> tuple[tuple[Split, tuple[CounterfactualSet, ...]], ...]:
        """The sets of which test figures are taken: test data, and what was fitted on."""
        return (("test", self.test), ("fit", self.fit))

    def sets(self, split: Split) -> tuple[CounterfactualSet, ...]:
        """The sets of one split."""
        by_split = {"fit": self.fit, "validation": self.validation, "test": self.test}
        return by_split[split]

    @property
    def every_fact(self) -> tuple[CounterfactualSet, ...]:
        """The sets of facts of all splits."""
        return tuple(data for sets in self.legitimate_differences.values() for data in sets)

    @property
    def every_set(self) -> tuple[CounterfactualSet, ...]:
        """All sets: fitted on, kept, measured, of agreement, of facts, and of other axes."""
        measured = (*self.fit, *self.keep, *self.validation, *self.test)
        return (*measured, *self.agreement.values(), *self.every_fact, *self.other_axes)

    @property
    def names(self) -> dict[Split, dict[str, list[str]]]:
        """Split → group → the names that its sets speak of."""
        names: dict[Split, dict[str, list[str]]] = {}
        for split in SPLITS:
            of_split = dict.fromkeys(
                (v.group, v.name)
                for data in self.sets(split)
                for sample in data.samples
                for v in sample.variations
                if v.name
            )
            names[split] = {g: [name for own, name in of_split if own == g] for g in self.groups}
        return names

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all the data."""
        return fingerprint(self.every_set, self.background)

    @property
    def weighed(self) -> tuple[str, ...]:
        """Texts whose activations erasers weigh and leave alone where they can."""
        return (*self.neutral.get("fit", ()), *self.background)

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
        """The task with so few validation names a group, and as small a share of all else.

        What is fitted on and what is tested stay as they are. Few names are among more of them, so
        that measurements on samples that grow build on each other; the draw is the seed's.
        """
        share = names / max(self.most_names, 1)
        texts = self.neutral.get("validation", ())
        agreement, legitimate_differences, neutral = (
            dict(self.agreement),
            dict(self.legitimate_differences),
            dict(self.neutral),
        )

        def few(data: CounterfactualSet) -> CounterfactualSet:
            return few_variations(data, max(1, round(share * data.widest)), seed)

        if "validation" in agreement:
            agreement["validation"] = few(agreement["validation"])
        if "validation" in legitimate_differences:
            legitimate_differences["validation"] = tuple(
                map(few, legitimate_differences["validation"])
            )
        if texts:
            neutral["validation"] = few_texts(texts, math.ceil(share * len(texts)), seed)
        return replace(
            self,
            validation=tuple(few_variations(data, names, seed) for data in self.validation),
            agreement=agreement,
            legitimate_differences=legitimate_differences,
            neutral=neutral,
        )

    def limited(self, most: int, seed: int = 0) -> Task:
        """The task with at most so many prompts of each set, and texts of each split.

        A quick try of what is asked: what is measured on so little is not to be reported.
        """

        def few(sets: Sequence[CounterfactualSet]) -> tuple[CounterfactualSet, ...]:
            return tuple(few_prompts(data, most, seed) for data in sets)

        return replace(
            self,
            fit=few(self.fit),
            validation=few(self.validation),
            test=few(self.test),
            own=few(self.own),
            keep=few(self.keep),
            background=few_texts(self.background, most, seed),
            agreement={s: few_prompts(data, most, seed) for s, data in self.agreement.items()},
            legitimate_differences={
                s: few(sets) for s, sets in self.legitimate_differences.items()
            },
            neutral={s: few_texts(texts, most, seed) for s, texts in self.neutral.items()},
            other_axes=few(self.other_axes),
            limit=most,
        )

    def within(
        self,
        out_of_vocabulary: Callable[[CounterfactualSet], OutOfVocabulary | None],
        keys: Collection[str],
    ) -> Task:
        """The task with those of its sets alone that a model was taught the words of.

        Args:
            untaught: what it lacks, of a set; None where it was taught the words.
            keys: the splits that are looked at, and `facts`.
        """
        kept: dict[str, Any] = {
            s: tuple(d for d in self.sets(s) if s not in keys or out_of_vocabulary(d) is None)
            for s in SPLITS
        }
        legitimate_differences = self.legitimate_differences
        if "legitimate_differences" in keys:
            legitimate_differences = {
                s: tuple(d for d in sets if out_of_vocabulary(d) is None)
                for s, sets in self.legitimate_differences.items()
            }
            legitimate_differences = (
                legitimate_differences if all(legitimate_differences.values()) else {}
            )
        left_out = (out_of_vocabulary(data) for data in self.test if data not in kept["test"])
        lacks = tuple(one for one in left_out if one is not None)
        return replace(
            self, **kept, legitimate_differences=legitimate_differences, out_of_vocabulary=lacks
        )

    @classmethod
    def from_config(
        cls,
        axis: str | Mapping[str, Any] | Sequence[str] = "gender",
        data: str | Mapping[str, Any] = OF_AXIS,
        *,
        groups: Sequence[str] | str | None = None,
        name: str = "",
        texts: str | Mapping[str, Any] = "testbed",
        names: Mapping[str, Any] | None = DRAWN,
        seed: int = 0,
    ) -> Task:
        """The task that an axis config and a data config describe.

        Args:
            axis: a file's name under `conf/axis`, what such a file holds, or several of them in a
                list, which are crossed.
            data: a file's name under `conf/data`, or what such a file holds: sets by split, each a
                name under `conf/dataset` or a mapping with its `source`. Unless given, those of the
                axis.
            groups: the groups, or `all`; the axis's first two unless named, of crossed axes all. Of
                more than two every pair is compared.
            name: tells tasks of one run apart.
            texts: a file's name under `conf/texts`, or what such a file holds: agreement, neutral
                text, sets to keep and sets of other axes, where `data` does not say. Of the other
                axes those that are audited or fitted on are left out.
            names: how many names of each group are drawn, by split; None takes all.
            seed: of that draw.

        Raises:
            UserError: a key or value is wrong, or a set cannot be made.
        """
        config = axis_config(axis)
        own = Axis.from_config(config)
        own_content, _ = data_of(config, config_of("data", data))
        for key in own_content:
            if key not in KEYS:
                raise unknown("data setting", key, KEYS)
        text_content = config_of("texts", texts)
        for key in text_content:
            if key not in TEXTS:
                raise unknown("texts setting", key, TEXTS)
        content = {**text_content, **own_content}
        own_keep = content.get("keep") is not None and "keep" in own_content
        if not own_keep:
            content["keep"] = text_content.get("keep")
        people = People.from_config(names, seed)
        compared = tuple(group.name for group in own.chosen(groups))
        words = config.get("substitution")
        substitution = Substitution.from_config(own, words) if words else None

        chosen = None if groups is None and not own.made_of else compared
        builder = SetBuilder(
            own, substitution, people, chosen, str(content.get("name") or TEMPLATES)
        )
        neutral = content.get("neutral")
        task = cls(
            axis=own,
            groups=compared,
            neutral=from_config(neutral) if neutral else {},
            substitution=substitution,
            name=name,
            **sets_of(builder, content, own_keep),
        )
        asked = (data for split in SPLITS for data in task.sets(split))
        return replace(task, warnings=tuple(spacing_warnings(asked)))
