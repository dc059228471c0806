"""The planted truth: prompts with known answer probabilities, from `truth.yaml`.

The file travels with the model in which it is planted: whoever has the directory has the truth.
Goes out: `PlantedPrompt`s (a wording, its outputs and their exact probabilities for each group),
what every name leans to, and the counterfactual sets made from them, so that every measured
difference between groups or people has a planted one beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from jaxtyping import Float64
from scipy.special import log_softmax

from countergen_edit.data.axis import Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.forms import DoesNotFitError
from countergen_edit.data.templates import Template, expand
from countergen_edit.errors import UserError, unknown
from countergen_edit.testbed.leanings import NameLeanings
from countergen_edit.testbed.prompts import AgreementPrompt, PlantedPrompt

People = Literal["planted", "all"]
"""Which names of an axis are asked about: those the truth speaks of, or all."""
PEOPLE: tuple[People, ...] = ("planted", "all")


@dataclass(frozen=True)
class Truth:
    """Everything planted in the testbed."""

    seed: int
    documents: int
    follow_up_probabilities: tuple[float, ...]
    prompts: tuple[PlantedPrompt, ...]
    follow_ups: tuple[PlantedPrompt, ...]
    agreement: tuple[AgreementPrompt, ...]
    agreement_follow_ups: tuple[AgreementPrompt, ...]
    descriptors: tuple[str, ...]
    neutral: tuple[tuple[tuple[str, ...], ...], ...]
    neutral_frequency: float
    leanings: NameLeanings
    facts: tuple[str, ...] = ()
    """Families in which the groups differ in fact: a difference that an edit is to keep."""
    people: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Axis → group → the names that the corpus speaks of, where these are not all of the axis."""
    text: str = ""
    """The file that it was compiled from, word for word."""

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(prompt.family for prompt in self.prompts))

    def of(self, family: str, split: Split) -> tuple[PlantedPrompt, ...]:
        """The planted prompts of a family in a split.

        Raises:
            UserError: the family is unknown or has no wording in the split.
        """
        if family not in self.families:
            raise unknown("testbed family", family, self.families)
        prompts = tuple(p for p in self.prompts if p.family == family and p.split == split)
        if not prompts:
            raise UserError(f"testbed family {family!r} has no wordings in the {split!r} split")
        return prompts

    def leaning(self, name: str, family: str) -> Float64[np.ndarray, " output"]:
        """What a name adds to the log odds of a family's outputs, in nats; 0 if it leans nowhere.

        Raises:
            UserError: the family is unknown.
        """
        if family not in self.families:
            raise unknown("testbed family", family, self.families)
        prompt = next(p for p in self.prompts if p.family == family)
        return self.leanings.of(name, family, len(prompt.outputs))

    def log_p(
        self, prompt: PlantedPrompt, group: str, name: str | None
    ) -> Float64[np.ndarray, " output"]:
        """log P(output | group, name), in nats: the truth about one person."""
        log_p: Float64[np.ndarray, " output"] = np.log(prompt.probability(group))
        if name is None:
            return log_p
        shift = self.leanings.of(name, prompt.family, len(prompt.outputs))
        return np.asarray(log_softmax(log_p + shift))

    def scores(self, data: CounterfactualSet) -> Float64[np.ndarray, "item side variation"]:
        """What a model that carries the truth exactly would score: log P of every item, in nats.

        Args:
            data: a set of one family, by `counterfactual_set`.
        """
        prompts = {self._as_prompt(prompt.template): prompt for prompt in self.prompts}
        return np.concatenate(
            [
                np.stack(
                    [
                        [self.log_p(prompts[s.template], group, v.name) for v in s.of(group)]
                        for group in data.groups
                    ]
                ).transpose(2, 0, 1)
                for s in data.samples
            ]
        )

    def planted_r(self, groups: tuple[str, str]) -> dict[tuple[str, str], float]:
        """(template, output) → planted R (CounterGen, equation 1) for two groups.

        P(output | group) is its mean over all names there could be.
        """
        planted = dict[tuple[str, str], float]()
        for prompt, items in self._items(groups):
            p_a, p_b = (
                weights @ np.exp(log_p) for weights, log_p in self._people_of(prompt, groups)
            )
            values = (p_a - p_b) / np.maximum(p_a, p_b)
            planted |= dict(zip(items, values.tolist(), strict=True))
        return planted

    def planted_effect(self, groups: tuple[str, str]) -> dict[tuple[str, str], float]:
        """(template, output) → the difference in mean log P over all names, in nats."""
        planted = dict[tuple[str, str], float]()
        for prompt, items in self._items(groups):
            a, b = (weights @ log_p for weights, log_p in self._people_of(prompt, groups))
            planted |= dict(zip(items, (a - b).tolist(), strict=True))
        return planted

    def counterfactual_set(
        self,
        family: str,
        split: Split,
        axis: Axis,
        groups: tuple[str, str] | None = None,
        people: People = "planted",
    ) -> CounterfactualSet:
        """The prompts of a family crossed with the axis's names of the same split.

        Args:
            family: whose prompts.
            split: of wordings and names.
            axis: the axis on which the family was planted.
            groups: the two groups; the axis's first two unless named.
            people: `planted` leaves out names that the truth does not speak of; an axis of which
                it speaks of nobody is used whole.
        """
        prompts = self.of(family, split)
        if prompts[0].axis not in axis.axes:
            raise DoesNotFitError(
                f"testbed family {family!r} was planted on axis {prompts[0].axis!r}, "
                f"not on {axis.name!r}"
            )
        if people not in PEOPLE:
            raise unknown("people", people, PEOPLE)
        templates = [Template(self._as_prompt(p.template), p.outputs, p.content) for p in prompts]
        asked = self.planted_people(axis) if people == "planted" else axis
        return expand(f"{family}_{split}", templates, asked, split, groups)

    def planted_people(self, axis: Axis) -> Axis:
        """The axis with those of its names that the truth speaks of; all, if it speaks of none."""
        planted = {g: n for name in axis.axes for g, n in self.people.get(name, {}).items()}
        groups = {
            name: replace(
                group,
                names={
                    split: tuple(n for n in names if n in planted.get(name, ()))
                    for split, names in group.names.items()
                },
            )
            for name, group in axis.groups.items()
        }
        return replace(axis, groups=groups) if any(g.all_names() for g in groups.values()) else axis

    def agreement_set(
        self, split: Split, axis: Axis, groups: tuple[str, str] | None = None
    ) -> CounterfactualSet:
        """Prompts whose i-th output is the form that agrees with the i-th group."""
        a, b = axis.pair(groups)
        templates = [
            Template(p.template, (f" {a.forms[p.form]}", f" {b.forms[p.form]}"))
            for p in self.agreement
            if p.split == split
        ]
        return expand(f"agreement_{split}", templates, axis, split, (a.name, b.name))

    def neutral_texts(self) -> list[str]:
        """Every sentence about nobody that the grammar can make, in a fixed order."""
        return [" ".join(parts) + "." for columns in self.neutral for parts in _product(columns)]

    def _as_prompt(self, template: str) -> str:
        return template.replace("{descriptor}", self.descriptors[0])

    def _items(
        self, groups: tuple[str, str]
    ) -> Iterator[tuple[PlantedPrompt, list[tuple[str, str]]]]:
        """The prompts planted for both groups, each with its (template, output)s."""
        for prompt in self.prompts:
            try:
                for group in groups:
                    prompt.probability(group)
            except UserError:
                continue  # planted on another axis
            template = self._as_prompt(prompt.template)
            yield prompt, [(template, output) for output in prompt.outputs]

    def _people_of(
        self, prompt: PlantedPrompt, groups: tuple[str, str]
    ) -> Iterator[tuple[Float64[np.ndarray, " node"], Float64[np.ndarray, "node output"]]]:
        """For either group, all names there could be: their weights and their log P(output)."""
        for group in groups:
            yield self.leanings.population(prompt.family, np.log(prompt.probability(group)))


def _product(columns: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, ...]]:
    grids = np.indices([len(column) for column in columns]).reshape(len(columns), -1).T
    return (tuple(c[i] for c, i in zip(columns, row, strict=True)) for row in grids)
