"""Gates: the opening of a gated edit on held-out text, as rows `gate_open` by kind of text.

Neutral text is read at every token; prompts whose next word must agree, and those to be erased, at
their last. Neutral texts are resampled; of prompts, templates and names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64, Int

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.task import Task
from countergen_edit.metrics.costs.neutral import DATASETS
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Weights, estimate, resample, weighted_mean

Kind = Literal["nobody", "agreement", "erase"]
OPEN = "gate_open"
CLOSED = "where it stays closed, a token is left as it was, to the last bit."


@dataclass(frozen=True)
class Text:
    """A text with its template, group and name."""

    text: str
    paraphrase: str
    group: str = ""
    name: str | None = None


@dataclass(frozen=True)
class Texts:
    """Texts of one kind."""

    kind: Kind
    each: tuple[Text, ...]
    sets: tuple[CounterfactualSet, ...] = ()
    """The sets that prompts are from; none of running text."""

    @property
    def at_last(self) -> bool:
        """Whether only the last token of each is read."""
        return bool(self.sets)

    @property
    def dataset(self) -> str:
        """Their name in rows."""
        return "+".join(data.name for data in self.sets) or DATASETS["validation"]


def texts_of(task: Task) -> list[Texts]:
    """Validation data of each kind that the task has, each text once."""
    running = tuple(Text(text, text) for text in dict.fromkeys(task.neutral.get("validation", ())))
    agreement = task.agreement.get("validation")
    every = [
        Texts("nobody", running),
        _prompts("agreement", () if agreement is None else (agreement,)),
        _prompts("erase", task.validation),
    ]
    return [texts for texts in every if texts.each]


def _prompts(kind: Kind, sets: Sequence[CounterfactualSet]) -> Texts:
    each = {
        v.text: Text(v.text, sample.template, v.group, v.name)
        for data in sets
        for sample in data.samples
        for v in sample.variations
    }
    return Texts(kind, tuple(each.values()), tuple(sets))


@dataclass(frozen=True)
class Opening:
    """How far a gate is open at the tokens of some texts."""

    texts: Texts
    opened: Float64[np.ndarray, " token"]
    """From 0 to 1."""
    text: Int[np.ndarray, " token"]
    """Index into `texts.each`."""


def gate_rows(openings: Iterable[Opening], seed: int) -> list[Row]:
    """A row `gate_open` for each kind: the mean over tokens.

    The detail has the share of tokens at which the gate was not wholly closed, with its interval,
    the share at which it was wholly open, and how many tokens there are.

    Args:
        openings: of one gate.
        seed: the run's seed.
    """
    return [_row(opening, seed) for opening in openings]


def _row(opening: Opening, seed: int) -> Row:
    texts, opened = opening.texts, opening.opened
    kinds, drawn = _resamples(texts, seed)
    index = np.arange(len(texts.each))

    def summed(values: Float64[np.ndarray, " token"]) -> Float64[np.ndarray, " resample"]:
        by_text = np.bincount(opening.text, values, len(index))
        return weighted_mean(by_text, index, drawn)

    with np.errstate(invalid="ignore"):  # a draw may hold no one of whom a drawn template is asked
        tokens = summed(np.ones(len(opened)))
        mean, not_closed = (
            estimate(summed(values) / tokens, *kinds, within=(0, 1))
            for values in (opened, (opened > 0).astype(np.float64))
        )
    about: dict[str, Any] = {}
    if texts.sets:
        first = texts.sets[0]
        about = {"axis": first.axis, "group_a": first.groups[0], "group_b": first.groups[1]}
    shares = {
        f"not_closed{end}": value
        for end, value in zip(("", "_lo", "_hi"), not_closed.columns.values(), strict=True)
    }
    return Row(
        metric=OPEN,
        **mean.columns,
        **about,
        dataset=texts.dataset,
        facets={"texts": texts.kind},
        split="validation",
        n=len(texts.each),
        seed=seed,
        detail={**shares, "wholly_open": float(np.mean(opened >= 1)), "tokens": len(opened)},
    )


def _resamples(
    texts: Texts, seed: int
) -> tuple[list[Weights], Float64[np.ndarray, "resample text"]]:
    """The draws of each kind of cluster, and how often each text is drawn by all of them."""
    place, count = _numbered([one.paraphrase for one in texts.each])
    unit = "templates" if texts.sets else "texts"
    kinds = [resample(count, seed, texts.dataset, unit)]
    drawn = kinds[0][:, place]
    for group in dict.fromkeys(one.group for one in texts.each if one.name):
        own = [i for i, one in enumerate(texts.each) if one.group == group and one.name]
        person, count = _numbered([texts.each[i].name for i in own])
        kinds.append(resample(count, seed, texts.dataset, "names", group))
        people = np.ones((len(kinds[-1]), len(texts.each)))
        people[:, own] = kinds[-1][:, person]
        drawn = drawn * people
    return kinds, drawn


def _numbered(labels: Sequence[str | None]) -> tuple[Int[np.ndarray, " item"], int]:
    """The number of each label, and how many different ones there are."""
    number = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    return np.array([number[label] for label in labels]), len(number)
