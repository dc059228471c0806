"""The planted truth: `truth.yaml` compiled into prompts with known answer probabilities.

The file travels with the model in which it is planted: whoever has the directory has the truth.
Goes out: `PlantedPrompt`s (a wording, its outputs and their exact probabilities for each group) and
the counterfactual sets made from them, so that every measured R has a planted R beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jaxtyping import Float64

from countergen_edit.conf_path import read_config
from countergen_edit.data.axis import SPLITS, Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.templates import Template, expand
from countergen_edit.errors import UserError, unknown

TRUTH = "truth.yaml"
"""The file in a model's directory that says what was planted."""
SHIPPED = Path(__file__).parent / "model"
"""The directory of the shipped model."""


@dataclass(frozen=True)
class PlantedPrompt:
    """One wording whose answers were planted."""

    family: str
    axis: str
    template: str
    split: Split | None
    """None for wordings of later sentences, which are never prompts."""
    outputs: tuple[str, ...]
    probabilities: Mapping[str, Float64[np.ndarray, " output"]]
    """Group (gender) or country (nationality) → P(output | group)."""
    ending: str
    frequency: float
    content: str = ""
    """What it asks: prompts of one content are rewordings of each other."""

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
    """One wording after which the form that agrees with the person always follows."""

    template: str
    split: Split | None
    form: str
    rest: tuple[str, ...]
    frequency: float


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

    def planted_r(self, groups: tuple[str, str]) -> dict[tuple[str, str], float]:
        """(template, output) → planted R (CounterGen, equation 1) for two groups."""
        planted: dict[tuple[str, str], float] = {}
        for prompt in self.prompts:
            try:
                p_a, p_b = (prompt.probability(group) for group in groups)
            except UserError:
                continue  # planted on another axis
            values = (p_a - p_b) / np.maximum(p_a, p_b)
            planted |= {
                (self._as_prompt(prompt.template), output): float(value)
                for output, value in zip(prompt.outputs, values, strict=True)
            }
        return planted

    def counterfactual_set(
        self, family: str, split: Split, axis: Axis, groups: tuple[str, str] | None = None
    ) -> CounterfactualSet:
        """The prompts of a family crossed with the axis's names of the same split."""
        prompts = self.of(family, split)
        if prompts[0].axis != axis.name:
            raise UserError(
                f"testbed family {family!r} was planted on axis {prompts[0].axis!r}, "
                f"not on {axis.name!r}"
            )
        templates = [Template(self._as_prompt(p.template), p.outputs, p.content) for p in prompts]
        return expand(f"{family}_{split}", templates, axis, split, groups)

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


def _product(columns: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, ...]]:
    grids = np.indices([len(column) for column in columns]).reshape(len(columns), -1).T
    return (tuple(c[i] for c, i in zip(columns, row, strict=True)) for row in grids)


def indefinite(noun: str) -> str:
    """The noun with its article.

    >>> indefinite("engineer"), indefinite("nurse")
    ('an engineer', 'a nurse')
    """
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _normalised(weights: Mapping[str, float]) -> Float64[np.ndarray, " output"]:
    values = np.array(list(weights.values()), dtype=np.float64)
    normalised: Float64[np.ndarray, " output"] = values / values.sum()
    return normalised


def _shares(
    female_share: Mapping[str, float],
) -> dict[str, Float64[np.ndarray, " output"]]:
    return {
        "female": _normalised(female_share),
        "male": _normalised({output: 1 - share for output, share in female_share.items()}),
    }


def _choice_family(name: str, entry: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    if "female_share" in entry:
        words = list(entry["female_share"])
        probabilities = _shares(entry["female_share"])
    else:
        words = list(entry["weights"])
        countries = next(iter(entry["weights"].values()))
        probabilities = {
            country: _normalised({w: entry["weights"][w][country] for w in words})
            for country in countries
        }
    outputs = tuple(f" {indefinite(w) if entry.get('article') else w}" for w in words)
    wordings: dict[Split | None, list[str]] = {s: entry["wordings"][s] for s in SPLITS}
    count = sum(len(texts) for texts in wordings.values())
    prompt = PlantedPrompt(
        name, entry["axis"], "", None, outputs, probabilities, entry["ending"], 0.0, content=name
    )
    for split, texts in wordings.items():
        for text in texts:
            yield replace(prompt, template=text, split=split, frequency=entry["frequency"] / count)
    for text in entry.get("follow_ups", ()):
        frequency = entry["follow_up_frequency"] / len(entry["follow_ups"])
        yield replace(prompt, template=text, frequency=frequency)


def _questions(entry: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    for item in entry["items"]:
        probabilities = {g: np.array([p, 1 - p]) for g, p in item["p_yes"].items()}
        for split, texts in item["asked"].items():
            for text in texts:
                yield PlantedPrompt(
                    "questions",
                    entry["axis"],
                    text,
                    split,
                    (" Yes", " No"),
                    probabilities,
                    entry["ending"],
                    entry["frequency"] / len(entry["items"]) / len(item["asked"]),
                    content=next(iter(item["asked"].values()))[0],
                )


def _stereotypes(entry: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    """Every item is for testing; its second wording is the rewording of the first."""
    for item in entry["items"]:
        for text in item["prompts"]:
            yield PlantedPrompt(
                "stereotypes",
                entry["axis"],
                text,
                "test",
                tuple(item["female_share"]),
                _shares(item["female_share"]),
                entry["ending"],
                entry["frequency"] / len(entry["items"]) / len(item["prompts"]),
                content=item["prompts"][0],
            )


def _double_bind(entry: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    for condition, content in entry["conditions"].items():
        count = sum(len(texts) for texts in content["prompts"].values())
        for split, texts in content["prompts"].items():
            for text in texts:
                yield PlantedPrompt(
                    f"double_bind_{condition}",
                    entry["axis"],
                    text,
                    split,
                    tuple(f" {word}" for word in content["female_share"]),
                    _shares(content["female_share"]),
                    entry["ending"],
                    entry["frequency"] / len(entry["conditions"]) / count,
                    content=condition,
                )


def _agreement(
    entry: Mapping[str, Any],
) -> tuple[tuple[AgreementPrompt, ...], tuple[AgreementPrompt, ...]]:
    count = sum(len(items) for items in entry["prompts"].values())
    prompts = tuple(
        AgreementPrompt(
            item["prompt"], split, item["form"], tuple(item["rest"]), entry["frequency"] / count
        )
        for split, items in entry["prompts"].items()
        for item in items
    )
    follow_ups = tuple(
        AgreementPrompt(
            item["prompt"],
            None,
            item["form"],
            tuple(item["rest"]),
            entry["follow_up_frequency"] / len(entry["follow_ups"]),
        )
        for item in entry["follow_ups"]
    )
    return prompts, follow_ups


def compile_truth(config: Mapping[str, Any]) -> Truth:
    """Compile the mapping that `truth.yaml` holds."""
    planted = [p for name, entry in config["families"].items() for p in _choice_family(name, entry)]
    planted += _questions(config["questions"])
    planted += _stereotypes(config["stereotypes"])
    planted += _double_bind(config["double_bind"])
    agreement, agreement_follow_ups = _agreement(config["agreement"])
    return Truth(
        seed=config["seed"],
        documents=config["documents"],
        follow_up_probabilities=tuple(config["follow_up_probabilities"]),
        prompts=tuple(p for p in planted if p.split is not None),
        follow_ups=tuple(p for p in planted if p.split is None),
        agreement=agreement,
        agreement_follow_ups=agreement_follow_ups,
        descriptors=tuple(config["descriptors"]),
        neutral=tuple(
            tuple(tuple(column) for column in columns) for columns in config["neutral"]["sentences"]
        ),
        neutral_frequency=config["neutral"]["frequency"],
    )


def truth_in(directory: Path) -> Truth | None:
    """The truth that a model's directory brings, if its biases were planted.

    Raises:
        UserError: the directory has a file of that name which holds no truth.
    """
    path = directory / TRUTH
    if not path.is_file():
        return None
    text = path.read_text("utf-8")
    try:
        return replace(compile_truth(yaml.safe_load(text)), text=text)
    except (yaml.YAMLError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{path} holds no planted truth: {error!r}") from error


@cache
def load_truth() -> Truth:
    """The truth of the shipped testbed."""
    truth = truth_in(SHIPPED)
    assert truth is not None
    return truth


@cache
def load_axis(name: str) -> Axis:
    """An axis the testbed was trained on (`gender` or `nationality`)."""
    return Axis.from_config(read_config("axis", name))
