"""Gates: the opening of a gated edit on held-out text, as rows `gate_open` by kind of text.

Neutral text is read at every token; prompts whose next word must agree, and those to be erased, at
their last. Neutral texts are resampled; of prompts, templates and names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.task import Task
from countergen_edit.metrics.costs.neutral import DATASETS
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Weights, estimate, resample, weighted_mean

Kind = Literal["neutral", "agreement", "erase"]
OPEN = "gate_open"
SHARES = ("not_closed", "not_closed_lo", "not_closed_hi")
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
    """Texts of one kind, and the sets that prompts are from; none of running text."""

    kind: Kind
    each: tuple[Text, ...]
    sets: tuple[CounterfactualSet, ...] = ()

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
    running = dict.fromkeys(task.neutral.get("validation", ()))
    every = [Texts("neutral", tuple(Text(text, text) for text in running))]
    agreement = task.agreement.get("validation")
    prompts: dict[Kind, Sequence[CounterfactualSet]] = {
        "agreement": [agreement] if agreement else [],
        "erase": task.validation,
    }
    for kind, sets in prompts.items():
        samples = (sample for data in sets for sample in data.samples)
        each = {
            v.text: Text(v.text, sample.template, v.group, v.name)
            for sample in samples
            for v in sample.variations
        }
        every.append(Texts(kind, tuple(each.values()), tuple(sets)))
    return [texts for texts in every if texts.each]


@dataclass(frozen=True)
class Opening:
    """How far a gate is open, from 0 to 1, at the tokens of some texts."""

    texts: Texts
    opened: Float64[np.ndarray, " token"]
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
    values = np.array([np.ones(len(opened)), opened, opened > 0], dtype=np.float64)
    index = np.arange(len(texts.each))
    tokens, *sums = (
        weighted_mean(np.bincount(opening.text, own, len(index)), index, drawn) for own in values
    )
    with np.errstate(invalid="ignore"):  # a draw may hold no one of whom a drawn template is asked
        means, share = (own / tokens for own in sums)
    mean = estimate(means, *kinds, within=(0, 1)).columns
    not_closed = estimate(share, *kinds, within=(0, 1), whole=1).columns
    about: dict[str, Any] = {}
    if texts.sets:
        first = texts.sets[0]
        about = {"axis": first.axis, "group_a": first.groups[0], "group_b": first.groups[1]}
    shares = dict(zip(SHARES, not_closed.values(), strict=True))
    return Row(
        metric=OPEN,
        **mean,
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
    table = pd.DataFrame(map(vars, texts.each))
    place, templates = table.paraphrase.factorize()
    unit = "templates" if texts.sets else "texts"
    kinds = [resample(len(templates), seed, texts.dataset, unit)]
    drawn = kinds[0][:, place]
    for group, own in table[table["name"].notna()].groupby("group", sort=False):
        person, names = own["name"].factorize()
        kinds.append(resample(len(names), seed, texts.dataset, "names", group))
        people = np.ones((len(kinds[-1]), len(table)))
        people[:, own.index] = kinds[-1][:, person]
        drawn = drawn * people
    return kinds, drawn
