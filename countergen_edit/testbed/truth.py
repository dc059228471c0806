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
from dataclasses import dataclass, field, replace
from functools import cache
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

NODES = 24
"""Nodes of Gauss-Hermite quadrature for each of the two normal variables."""
Probabilities = Mapping[str, Float64[np.ndarray, " output"]]


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
    content: str = ""

    def probability(self, group: str) -> Float64[np.ndarray, " output"]:
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
        """A name's shift of the log odds of the outputs, (output,), in nats."""
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


@dataclass(frozen=True)
class Truth:
    """Everything planted in the testbed.

    `people` are the names of the corpus, by axis and group, where these are not all of the axis;
    `text` is the source file.
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
        parts = []
        for sample in data.samples:
            prompt = prompts[sample.template]
            log_p = [[self.log_p(prompt, g, v.name) for v in sample.of(g)] for g in data.groups]
            parts.append(np.array(log_p).transpose(2, 0, 1))
        return np.concatenate(parts)

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
        templates = [Template(self._as_prompt(p.template), p.outputs, p.content) for p in prompts]
        return expand(f"{family}_{split}", templates, self._planted_people(axis), split, groups)

    def _planted_people(self, axis: Axis) -> Axis:
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
        return [" ".join(parts) + "." for columns in self.neutral for parts in product(*columns)]

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


def compile_truth(config: Mapping[str, Any], text: str = "") -> Truth:
    """Compile the mapping of `truth.yaml`.

    `UserError` if names lean in a family that is unknown, shows no name or varies its outputs.
    """
    planted = [p for name, entry in config["families"].items() for p in _choice_family(name, entry)]
    planted += _item_families(config)
    prompts = tuple(p for p in planted if p.split is not None)
    leanings, agreement, neutral = config["name_leanings"], config["agreement"], config["neutral"]
    for family in leanings["families"]:
        own = [p for p in prompts if p.family == family]
        if not own:
            raise unknown("family in which names lean", family, {p.family for p in prompts})
        if len({p.outputs for p in own}) > 1 or any("{name}" not in p.template for p in own):
            raise UserError(
                f"names cannot lean in {family!r}: all its prompts need a name and the same outputs"
            )
    return Truth(
        seed=config["seed"],
        documents=config["documents"],
        follow_up_probabilities=tuple(config["follow_up_probabilities"]),
        prompts=prompts,
        follow_ups=tuple(p for p in planted if p.split is None),
        agreement=_agreement(agreement["prompts"], agreement["frequency"]),
        agreement_follow_ups=_agreement(
            {None: agreement["follow_ups"]}, agreement["follow_up_frequency"]
        ),
        descriptors=tuple(config["descriptors"]),
        neutral=tuple(tuple(map(tuple, columns)) for columns in neutral["sentences"]),
        neutral_frequency=neutral["frequency"],
        leanings=NameLeanings(
            config["seed"], leanings["across"], leanings["within"], tuple(leanings["families"])
        ),
        legitimate_differences=tuple(
            name for name, entry in config["families"].items() if entry.get("fact")
        ),
        people={
            axis: {group: tuple(names) for group, names in groups.items()}
            for axis, groups in config["people"].items()
        },
        text=text,
    )


def indefinite(noun: str) -> str:
    """The noun with its article.

    >>> indefinite("engineer"), indefinite("nurse")
    ('an engineer', 'a nurse')
    """
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _normalised(weights: Iterable[float]) -> Float64[np.ndarray, " output"]:
    values = np.array(list(weights), dtype=np.float64)
    normalised: Float64[np.ndarray, " output"] = values / values.sum()
    return normalised


def _shares(female_share: Mapping[str, float]) -> dict[str, Float64[np.ndarray, " output"]]:
    shares = female_share.values()
    return {"female": _normalised(shares), "male": _normalised(1 - share for share in shares)}


def _choice_family(name: str, entry: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    if "female_share" in entry:
        words, probabilities = list(entry["female_share"]), _shares(entry["female_share"])
    else:
        words, weights = list(entry["weights"]), entry["weights"].values()
        countries = next(iter(weights))
        probabilities = {c: _normalised(weight[c] for weight in weights) for c in countries}
    outputs = tuple(f" {indefinite(w) if entry.get('article') else w}" for w in words)
    count = sum(len(texts) for texts in entry["paraphrases"].values())
    prompt = PlantedPrompt(
        name, entry["axis"], "", None, outputs, probabilities, entry["ending"], 0.0, content=name
    )
    for split in SPLITS:
        for text in entry["paraphrases"][split]:
            yield replace(prompt, template=text, split=split, frequency=entry["frequency"] / count)
    for text in entry.get("follow_ups", ()):
        frequency = entry["follow_up_frequency"] / len(entry["follow_ups"])
        yield replace(prompt, template=text, frequency=frequency)


def _item_families(config: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    """Questions, stereotypes and the double bind: the prompts of an item have the same answers."""
    entry = config["questions"]
    for item in entry["items"]:
        own = {group: np.array([p, 1 - p]) for group, p in item["p_yes"].items()}
        texts = _by_split(item["asked"])
        yield from _item("questions", entry, "items", texts, (" Yes", " No"), own, texts[0][1])
    entry = config["stereotypes"]
    for item in entry["items"]:
        shares, texts = item["female_share"], _by_split({"test": item["prompts"]})
        own = _shares(shares)
        yield from _item("stereotypes", entry, "items", texts, tuple(shares), own, texts[0][1])
    entry = config["double_bind"]
    for condition, item in entry["conditions"].items():
        shares, texts = item["female_share"], _by_split(item["prompts"])
        family, outputs = f"double_bind_{condition}", tuple(f" {word}" for word in shares)
        own = _shares(shares)
        yield from _item(family, entry, "conditions", texts, outputs, own, condition)


def _by_split(texts: Mapping[Split, Sequence[str]]) -> list[tuple[Split, str]]:
    return [(split, text) for split, own in texts.items() for text in own]


def _item(
    family: str,
    entry: Mapping[str, Any],
    items: str,
    texts: Sequence[tuple[Split, str]],
    outputs: tuple[str, ...],
    probabilities: Probabilities,
    content: str,
) -> Iterator[PlantedPrompt]:
    frequency = entry["frequency"] / len(entry[items]) / len(texts)
    for split, text in texts:
        own = (text, split, outputs, probabilities, entry["ending"], frequency, content)
        yield PlantedPrompt(family, entry["axis"], *own)


def _agreement(
    items: Mapping[Split | None, Sequence[Mapping[str, Any]]], frequency: float
) -> tuple[AgreementPrompt, ...]:
    count = sum(map(len, items.values()))
    return tuple(
        AgreementPrompt(item["prompt"], split, item["form"], tuple(item["rest"]), frequency / count)
        for split, own in items.items()
        for item in own
    )
