"""Compile the mapping of `truth.yaml` into prompts with known answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.axis import SPLITS, Split
from countergen_edit.testbed.prompts import AgreementPrompt, PlantedPrompt
from countergen_edit.testbed.truth import NameLeanings, Truth


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
    paraphrases: dict[Split | None, list[str]] = {s: entry["paraphrases"][s] for s in SPLITS}
    count = sum(len(texts) for texts in paraphrases.values())
    prompt = PlantedPrompt(
        name, entry["axis"], "", None, outputs, probabilities, entry["ending"], 0.0, content=name
    )
    for split, texts in paraphrases.items():
        for text in texts:
            yield replace(prompt, template=text, split=split, frequency=entry["frequency"] / count)
    for text in entry.get("follow_ups", ()):
        frequency = entry["follow_up_frequency"] / len(entry["follow_ups"])
        yield replace(prompt, template=text, frequency=frequency)


def _questions(entry: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    for item in entry["items"]:
        asked = [(split, text) for split, texts in item["asked"].items() for text in texts]
        probabilities = {g: np.array([p, 1 - p]) for g, p in item["p_yes"].items()}
        frequency = entry["frequency"] / len(entry["items"]) / len(item["asked"])
        content = asked[0][1]
        answers = (" Yes", " No")
        yield from _alike("questions", entry, asked, answers, probabilities, frequency, content)


def _stereotypes(entry: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    """Every item is for testing; its second prompt is a paraphrase of the first."""
    for item in entry["items"]:
        asked: list[tuple[Split, str]] = [("test", text) for text in item["prompts"]]
        shares = item["female_share"]
        frequency = entry["frequency"] / len(entry["items"]) / len(asked)
        content = item["prompts"][0]
        own = (tuple(shares), _shares(shares), frequency, content)
        yield from _alike("stereotypes", entry, asked, *own)


def _double_bind(entry: Mapping[str, Any]) -> Iterator[PlantedPrompt]:
    for condition, content in entry["conditions"].items():
        asked = [(split, text) for split, texts in content["prompts"].items() for text in texts]
        shares = content["female_share"]
        frequency = entry["frequency"] / len(entry["conditions"]) / len(asked)
        own = (tuple(f" {word}" for word in shares), _shares(shares), frequency, condition)
        yield from _alike(f"double_bind_{condition}", entry, asked, *own)


def _alike(
    family: str,
    entry: Mapping[str, Any],
    asked: Iterable[tuple[Split, str]],
    outputs: tuple[str, ...],
    probabilities: Mapping[str, Float64[np.ndarray, " output"]],
    frequency: float,
    content: str,
) -> Iterator[PlantedPrompt]:
    """Prompts with the same answers."""
    for split, text in asked:
        own = (text, split, outputs, probabilities, entry["ending"], frequency, content)
        yield PlantedPrompt(family, entry["axis"], *own)


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


def _leanings(
    seed: int, entry: Mapping[str, Any], prompts: Sequence[PlantedPrompt]
) -> NameLeanings:
    families = {name: [p for p in prompts if p.family == name] for name in entry["families"]}
    for family, own in families.items():
        if not own:
            raise unknown("family in which names lean", family, {p.family for p in prompts})
        if len({p.outputs for p in own}) > 1 or any("{name}" not in p.template for p in own):
            raise UserError(
                f"names cannot lean in {family!r}: all its prompts need a name and the same outputs"
            )
    return NameLeanings(seed, entry["across"], entry["within"], tuple(families))


def compile_truth(config: Mapping[str, Any]) -> Truth:
    """Compile the mapping of `truth.yaml`.

    `UserError` if names lean in a family that is unknown, shows no name or varies its outputs.
    """
    planted = [p for name, entry in config["families"].items() for p in _choice_family(name, entry)]
    planted += _questions(config["questions"])
    planted += _stereotypes(config["stereotypes"])
    planted += _double_bind(config["double_bind"])
    prompts = tuple(p for p in planted if p.split is not None)
    agreement, agreement_follow_ups = _agreement(config["agreement"])
    return Truth(
        seed=config["seed"],
        documents=config["documents"],
        follow_up_probabilities=tuple(config["follow_up_probabilities"]),
        prompts=prompts,
        follow_ups=tuple(p for p in planted if p.split is None),
        agreement=agreement,
        agreement_follow_ups=agreement_follow_ups,
        descriptors=tuple(config["descriptors"]),
        neutral=tuple(
            tuple(tuple(column) for column in columns) for columns in config["neutral"]["sentences"]
        ),
        neutral_frequency=config["neutral"]["frequency"],
        leanings=_leanings(config["seed"], config["name_leanings"], prompts),
        legitimate_differences=tuple(
            name for name, entry in config["families"].items() if entry.get("fact")
        ),
        people={
            axis: {group: tuple(names) for group, names in groups.items()}
            for axis, groups in config["people"].items()
        },
    )
