"""The planted truth: prompts with known answer probabilities, from `truth.yaml`.

The file travels with the model. Names lean by themselves, whatever their group:

    P(y | group, name) ∝ P(y | group) exp(a_name u_f(y) + b_name,f w_f(y))

u_f and w_f are fixed orthogonal directions over the outputs of family f, of mean 0 and mean square
1 (equal for two outputs); a ~ N(0, across²) per name and b ~ N(0, within²) per name and family, in
nats. Leanings do not sum to zero over a sample of names. The shipped model learned a (correlation
0.98 and more) and hardly any b.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import numpy as np
from jaxtyping import Float64
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_softmax

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import Axis, DoesNotFitError, Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.templates import Template, expand
from countergen_edit.testbed.prompts import AgreementPrompt, PlantedPrompt

NODES = 24
"""Of Gauss-Hermite quadrature for each of the two normal variables."""


@dataclass(frozen=True)
class NameLeanings:
    """How strongly names lean: standard deviations `across` and `within` families, in nats.

    A leaning depends on the seed and the name alone, so that names outside the corpus have one too;
    in all but these `families`, people of one group are alike.
    """

    seed: int
    across: float = 0.0
    within: float = 0.0
    families: tuple[str, ...] = ()

    def directions(self, family: str, outputs: int) -> Float64[np.ndarray, "two output"]:
        """u_f and w_f."""
        return _directions(self.seed, family, outputs)

    def strengths(self, name: str, family: str) -> tuple[float, float]:
        """a and b of a name in a family, in nats; 0 where names do not lean."""
        if family not in self.families:
            return 0.0, 0.0
        a = self.across * generator(self.seed, "leaning", name).normal()
        b = self.within * generator(self.seed, "leaning", name, family).normal()
        return float(a), float(b)

    def of(self, name: str, family: str, outputs: int) -> Float64[np.ndarray, " output"]:
        """What a name adds to the log odds of the outputs, (output,), in nats."""
        strengths = np.array(self.strengths(name, family))
        shift: Float64[np.ndarray, " output"] = strengths @ self.directions(family, outputs)
        return shift

    def population(
        self, family: str, log_p: Float64[np.ndarray, " output"]
    ) -> tuple[Float64[np.ndarray, " node"], Float64[np.ndarray, "node output"]]:
        """Quadrature over all names: weights (node,) and log P(y | group, name), (node, output).

        Exact to rounding for smooth functions of both normal variables.
        """
        if family not in self.families:
            return np.ones(1), log_p[None]
        nodes, weights = hermegauss(NODES)
        weights = weights / weights.sum()
        a, b = (grid.ravel() for grid in np.meshgrid(nodes, nodes, indexing="ij"))
        strengths = np.stack([self.across * a, self.within * b], axis=1)
        shifts = strengths @ self.directions(family, len(log_p))
        return np.outer(weights, weights).ravel(), log_softmax(log_p + shifts, axis=1)


@cache
def _directions(seed: int, family: str, outputs: int) -> Float64[np.ndarray, "two output"]:
    u, w = generator(seed, "leaning directions", family).normal(size=(2, outputs))
    u, w = u - u.mean(), w - w.mean()
    if outputs > 2:
        w = w - (w @ u) / (u @ u) * u
    rows = np.stack([u, w if outputs > 2 else u])
    scaled: Float64[np.ndarray, "two output"] = rows / np.sqrt(np.mean(rows**2, 1, keepdims=True))
    return scaled


People = Literal["planted", "all"]
"""Which names of an axis are asked about: those the truth speaks of, or all."""
PEOPLE: tuple[People, ...] = ("planted", "all")


@dataclass(frozen=True)
class Truth:
    """Everything planted in the testbed.

    `facts` are families whose groups differ in fact, a legitimate difference; `people` the names of
    the corpus, by axis and group, where these are not all of the axis; `text` the source file.
    """

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
    legitimate_differences: tuple[str, ...] = ()
    people: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    text: str = ""

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(prompt.family for prompt in self.prompts))

    def of(self, family: str, split: Split) -> tuple[PlantedPrompt, ...]:
        """The planted prompts of a family in a split; `UserError` if there are none."""
        if family not in self.families:
            raise unknown("testbed family", family, self.families)
        prompts = tuple(p for p in self.prompts if p.family == family and p.split == split)
        if not prompts:
            raise UserError(f"testbed family {family!r} has no templates in the {split!r} split")
        return prompts

    def leaning(self, name: str, family: str) -> Float64[np.ndarray, " output"]:
        """What a name adds to the log odds of a family's outputs, in nats."""
        if family not in self.families:
            raise unknown("testbed family", family, self.families)
        prompt = next(p for p in self.prompts if p.family == family)
        return self.leanings.of(name, family, len(prompt.outputs))

    def log_p(
        self, prompt: PlantedPrompt, group: str, name: str | None
    ) -> Float64[np.ndarray, " output"]:
        """log P(output | group, name), (output,), in nats."""
        log_p: Float64[np.ndarray, " output"] = np.log(prompt.probability(group))
        if name is None:
            return log_p
        shift = self.leanings.of(name, prompt.family, len(prompt.outputs))
        return np.asarray(log_softmax(log_p + shift))

    def scores(self, data: CounterfactualSet) -> Float64[np.ndarray, "item side variation"]:
        """log P of every item of a one-family set by the truth, (item, side, variation)."""
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
        """(template, output) → planted R of two groups (CounterGen, equation 1)."""
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

        Parameters
        ----------
        family : str
        split : str
            Of templates and names.
        axis : Axis
            On which the family was planted.
        groups : pair of str, optional
            The axis's first two unless named.
        people : {"planted", "all"}
            `planted` leaves out names that the truth does not know, unless it knows none.
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
        """The axis with the names that the truth knows; unchanged if it knows none."""
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
        """Every neutral sentence of the grammar, in a fixed order."""
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
        """Each group's quadrature over names."""
        for group in groups:
            yield self.leanings.population(prompt.family, np.log(prompt.probability(group)))


def _product(columns: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, ...]]:
    grids = np.indices([len(column) for column in columns]).reshape(len(columns), -1).T
    return (tuple(c[i] for c, i in zip(columns, row, strict=True)) for row in grids)
