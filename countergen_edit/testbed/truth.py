"""The planted truth of `truth.yaml`: prompts with known answer probabilities.

Names lean by themselves, whatever their group:

    P(y | group, name) ∝ P(y | group) exp(a_name u_f(y) + b_name,f w_f(y))

u_f and w_f are fixed orthogonal directions over the outputs of family f, of mean 0 and mean square
1 (equal for two outputs); a ~ N(0, across²) per name and b ~ N(0, within²) per name and family, in
nats. Leanings do not sum to zero over a sample of names. The shipped model learned a (correlation
0.98 and more) and hardly any b.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import log_softmax

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import SPLITS, Axis, DoesNotFitError, Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.templates import Template, expand
from countergen_edit.data.text.grammar import with_article

NODES = 24
"""Nodes of Gauss-Hermite quadrature for each of the two normal variables."""
PerOutput = Float64[np.ndarray, " output"]
Probabilities = Mapping[str, PerOutput]
PlantedFigures = dict[tuple[str, str], float]
"""(template, output) → a planted figure."""


@dataclass(frozen=True)
class PlantedPrompt:
    """A prompt with planted answers.

    `split` is None for templates of later sentences, which are never prompts. `probabilities` maps
    a group (gender) or country (nationality) to P(output | group) of a name that leans nowhere.
    Prompts of one `content` are paraphrases of each other.
    """

    family: str
    axis: str
    template: str
    split: Split | None
    outputs: tuple[str, ...]
    probabilities: Probabilities
    ending: str
    frequency: float
    content: str

    def probability(self, group: str) -> PerOutput:
        """P(output | group); a nationality group such as `egypt_male` is planted by its country."""
        if group in self.probabilities:
            return self.probabilities[group]
        country = group.split("_")[0]
        if country not in self.probabilities:
            raise unknown(f"planted group of {self.family!r}", group, self.probabilities)
        return self.probabilities[country]


@dataclass(frozen=True)
class AgreementPrompt:
    """A prompt after which the form that agrees with the person follows."""

    template: str
    split: Split | None
    form: str
    rest: tuple[str, ...]
    frequency: float


@dataclass(frozen=True)
class NameLeanings:
    """Leanings of names: standard deviations `across` and `within` `families`, in nats.

    A leaning depends on the seed and the name alone, so that names outside the corpus have one too.
    """

    seed: int
    across: float
    within: float
    families: tuple[str, ...]

    def directions(self, family: str, outputs: int) -> Float64[np.ndarray, "two output"]:
        """u_f and w_f."""
        u, w = generator(self.seed, "leaning directions", family).normal(size=(2, outputs))
        u, w = u - u.mean(), w - w.mean()
        if outputs > 2:
            w = w - (w @ u) / (u @ u) * u
        rows = np.stack([u, w if outputs > 2 else u])
        return np.asarray(rows / np.sqrt(np.mean(rows**2, 1, keepdims=True)))

    def strengths(self, name: str, family: str) -> tuple[float, float]:
        """a and b of a name in a family, in nats; 0 where names do not lean."""
        if family not in self.families:
            return 0.0, 0.0
        a = self.across * generator(self.seed, "leaning", name).normal()
        b = self.within * generator(self.seed, "leaning", name, family).normal()
        return float(a), float(b)

    def of(self, name: str, family: str, outputs: int) -> PerOutput:
        """A name's shift of the log odds of the outputs, in nats."""
        return np.asarray(np.array(self.strengths(name, family)) @ self.directions(family, outputs))

    def population(
        self, family: str, log_p: PerOutput
    ) -> tuple[Float64[np.ndarray, " node"], Float64[np.ndarray, "node output"]]:
        """Quadrature over all names: weights and log P(y | group, name).

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


@dataclass(frozen=True)
class Truth:
    """Everything planted in the testbed.

    `people` are the names of the corpus, by axis and group, where these are not all of the axis.
    """

    seed: int
    prompts: tuple[PlantedPrompt, ...]
    follow_ups: tuple[PlantedPrompt, ...]
    agreement: tuple[AgreementPrompt, ...]
    agreement_follow_ups: tuple[AgreementPrompt, ...]
    descriptors: tuple[str, ...]
    neutral: tuple[tuple[tuple[str, ...], ...], ...]
    leanings: NameLeanings
    people: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

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

    def log_p(self, prompt: PlantedPrompt, group: str, name: str | None) -> PerOutput:
        """log P(output | group, name), in nats."""
        log_p: PerOutput = np.log(prompt.probability(group))
        if name is None:
            return log_p
        shift = self.leanings.of(name, prompt.family, len(prompt.outputs))
        return np.asarray(log_softmax(log_p + shift))

    def scores(self, data: CounterfactualSet) -> Float64[np.ndarray, "item side variation"]:
        """log P of every item of a one-family set by the truth, (item, side, variation)."""
        prompts = {self._as_prompt(prompt.template): prompt for prompt in self.prompts}
        parts = []
        for sample in data.samples:
            prompt = prompts[sample.template]
            log_p = [[self.log_p(prompt, g, v.name) for v in sample.of(g)] for g in data.groups]
            parts.append(np.array(log_p).transpose(2, 0, 1))
        return np.concatenate(parts)

    def planted(self, groups: tuple[str, str]) -> tuple[PlantedFigures, PlantedFigures]:
        """R of two groups (CounterGen, equation 1), and their difference in mean log P in nats.

        Both by template and output, over all names.
        """
        r: PlantedFigures = {}
        effect: PlantedFigures = {}
        for prompt in self.prompts:
            try:
                log_p = [np.log(prompt.probability(group)) for group in groups]
            except UserError:
                continue  # planted on another axis
            (weights, a), (_, b) = (self.leanings.population(prompt.family, p) for p in log_p)
            p_a, p_b = weights @ np.exp(a), weights @ np.exp(b)
            items = [(self._as_prompt(prompt.template), output) for output in prompt.outputs]
            r |= zip(items, ((p_a - p_b) / np.maximum(p_a, p_b)).tolist(), strict=True)
            effect |= zip(items, (weights @ a - weights @ b).tolist(), strict=True)
        return r, effect

    def counterfactual_set(
        self, family: str, split: Split, axis: Axis, groups: tuple[str, str] | None = None
    ) -> CounterfactualSet:
        """The prompts of a family crossed with the axis's names of the same split.

        `groups` are the axis's first two by default. Names that the truth does not know are left
        out, unless it knows none. `UserError` for an unknown family or split, `DoesNotFitError` for
        an axis on which the family was not planted.
        """
        prompts = self.of(family, split)
        if prompts[0].axis not in axis.axes:
            raise DoesNotFitError(
                f"testbed family {family!r} was planted on axis {prompts[0].axis!r}, "
                f"not on {axis.name!r}"
            )
        planted = {g: n for name in axis.axes for g, n in self.people.get(name, {}).items()}
        restricted = axis.with_names(
            lambda group, split: [n for n in group.names[split] if n in planted.get(group.name, ())]
        )
        if any(group.all_names() for group in restricted.groups.values()):
            axis = restricted
        templates = [Template(self._as_prompt(p.template), p.outputs, p.content) for p in prompts]
        return expand(f"{family}_{split}", templates, axis, split, groups)

    def agreement_set(
        self, split: Split, axis: Axis, groups: tuple[str, str] | None = None
    ) -> CounterfactualSet:
        """Prompts whose i-th output is the form that agrees with the i-th group."""
        pair = axis.pair(groups)
        templates = [
            Template(p.template, tuple(f" {group.forms[p.form]}" for group in pair))
            for p in self.agreement
            if p.split == split
        ]
        return expand(f"agreement_{split}", templates, axis, split, [g.name for g in pair])

    def neutral_texts(self) -> list[str]:
        """Every neutral sentence of the grammar, in a fixed order."""
        return [" ".join(parts) + "." for columns in self.neutral for parts in product(*columns)]

    def _as_prompt(self, template: str) -> str:
        return template.replace("{descriptor}", self.descriptors[0])


def compile_truth(config: Mapping[str, Any]) -> Truth:
    """Compile the mapping of `truth.yaml`."""
    planted = [p for name, entry in config["families"].items() for p in _choice_family(name, entry)]
    planted += _item_families(config)
    leanings, agreement = config["name_leanings"], config["agreement"]
    return Truth(
        seed=config["seed"],
        prompts=tuple(p for p in planted if p.split is not None),
        follow_ups=tuple(p for p in planted if p.split is None),
        agreement=_agreement(agreement["prompts"], agreement["frequency"]),
        agreement_follow_ups=_agreement(
            {None: agreement["follow_ups"]}, agreement["follow_up_frequency"]
        ),
        descriptors=tuple(config["descriptors"]),
        neutral=tuple(tuple(map(tuple, columns)) for columns in config["neutral"]["sentences"]),
        leanings=NameLeanings(
            config["seed"], leanings["across"], leanings["within"], tuple(leanings["families"])
        ),
        people={
            axis: {group: tuple(names) for group, names in groups.items()}
            for axis, groups in config["people"].items()
        },
    )


def _normalised(weights: Iterable[float]) -> PerOutput:
    values = np.array(list(weights), dtype=np.float64)
    return np.asarray(values / values.sum())


def _shares(female_share: Mapping[str, float]) -> dict[str, PerOutput]:
    shares = female_share.values()
    return {"female": _normalised(shares), "male": _normalised(1 - share for share in shares)}


def _choice_family(name: str, entry: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    words = entry["female_share" if "female_share" in entry else "weights"]
    if "female_share" in entry:
        probabilities = _shares(words)
    else:
        countries = next(iter(words.values()))
        probabilities = {c: _normalised(word[c] for word in words.values()) for c in countries}
    outputs = tuple(f" {with_article(w) if entry.get('article') else w}" for w in words)
    paraphrases = {split: entry["paraphrases"][split] for split in SPLITS}
    yield from _prompts(name, entry, paraphrases, outputs, probabilities, name)
    follow_ups = {None: entry.get("follow_ups", ())}
    entry = {**entry, "frequency": entry.get("follow_up_frequency")}
    yield from _prompts(name, entry, follow_ups, outputs, probabilities, name)


def _item_families(config: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    """Questions, stereotypes and the double bind: the prompts of an item have the same answers."""
    entry = config["questions"]
    for item in entry["items"]:
        p_yes = {group: np.array([p, 1 - p]) for group, p in item["p_yes"].items()}
        yield from _prompts("questions", entry, item["asked"], (" Yes", " No"), p_yes)
    entry = config["stereotypes"]
    for item in entry["items"]:
        shares = item["female_share"]
        prompts = {"test": item["prompts"]}
        yield from _prompts("stereotypes", entry, prompts, tuple(shares), _shares(shares))
    entry = config["double_bind"]
    for condition, item in entry["conditions"].items():
        family = f"double_bind_{condition}"
        shares = _shares(item["female_share"])
        outputs = tuple(f" {word}" for word in item["female_share"])
        yield from _prompts(family, entry, item["prompts"], outputs, shares, condition)


def _prompts(
    family: str,
    entry: Mapping[str, Any],
    templates: Mapping[Any, Sequence[str]],
    outputs: tuple[str, ...],
    probabilities: Probabilities,
    content: str | None = None,
) -> Iterator[PlantedPrompt]:
    """The prompts of one item by split, of as much text as any other item of the entry."""
    prompts = [(text, split) for split, texts in templates.items() for text in texts]
    items = len(entry.get("items", entry.get("conditions", (None,))))
    for text, split in prompts:
        frequency = entry["frequency"] / items / len(prompts)
        fields = (text, split, outputs, probabilities, entry["ending"], frequency)
        yield PlantedPrompt(family, entry["axis"], *fields, content or prompts[0][0])


def _agreement(
    items: Mapping[Any, Sequence[Mapping[str, Any]]], frequency: float
) -> tuple[AgreementPrompt, ...]:
    count = sum(map(len, items.values()))
    return tuple(
        AgreementPrompt(item["prompt"], split, item["form"], tuple(item["rest"]), frequency / count)
        for split, prompts in items.items()
        for item in prompts
    )
