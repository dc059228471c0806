"""Rows about a fit: its certificate, the course of a training, and the opening of a gate.

A certificate has the held-out accuracy of probes before and after an erasure. A gate's opening is
read on held-out text: neutral text at every token; prompts whose next word must agree, and those to
be erased, at their last. Neutral texts are resampled; of prompts, templates and names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.task import Task
from countergen_edit.erasers import Certificate
from countergen_edit.metrics.costs.neutral import DATASETS
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Clusters, Estimate

PROBES = ("linear", "nonlinear")
LOSS = "distillation_loss"
OWN_CONTEXTS = "own_contexts"
"""The row of the number of contexts that a model wrote itself, with examples in its detail."""
FACETS = ("seed", "step")
_TERMS = ("bias", "people", "keep", "neutral", "agreement", "legitimate")
"""Of a loss."""
TextKind = Literal["neutral", "agreement", "erase"]
OPEN = "gate_open"
_SHARES = ("not_closed", "not_closed_lo", "not_closed_hi")
CLOSED = "where it stays closed, a token is left as it was, to the last bit."


def certificate_rows(
    certificate: Certificate, task: Task, n: int, *, refitted: bool = True, remark: str = ""
) -> list[Row]:
    """Held-out accuracy of probes before and after an erasure, and what the theorem says.

    Parameters
    ----------
    certificate : of one fit
    task : that was fitted on
    n : activations that were fitted on, those to be kept not among them
    refitted : whether the eraser was fitted anew without the names that probes are measured on
    remark : what a reader should know of the fit, as the end of a sentence
    """
    figures = {
        f"{kind}_probe_accuracy{end}": f"{kind}_accuracy_{when}"
        for kind in PROBES
        for when, end in (("before", "_before"), ("after", ""))
    }
    figures |= {"probe_majority_rate": "majority_rate", "variance_removed": "variance_removed"}
    detail: dict[str, Any] = {"guaranteed": certificate.guaranteed, "reason": certificate.reason}
    detail |= {"refitted": refitted, "remark": remark}
    if len(task.groups) > 2:
        detail["groups"] = [*task.groups]
    about = _sets(task) | {"n": n, "detail": detail}
    return [
        Row.of(
            metric,
            Estimate(getattr(certificate, name), *certificate.intervals.get(name, ())),
            task.fit[0],
            **about,
        )
        for metric, name in figures.items()
    ]


def curve_rows(curve: Sequence[Mapping[str, float]], task: Task) -> list[Row]:
    """A row for each look at the losses of a fit (`Distillation.curve`), with its terms."""
    rows = []
    for look in curve:
        about: dict[str, Any] = {"facets": {name: look[name] for name in FACETS}}
        about["detail"] = {name: look[name] for name in _TERMS if name in look}
        rows.append(Row.of(LOSS, look["loss"], task.fit[0], **about | _sets(task)))
    return rows


def own_contexts_row(summary: Mapping[str, Any], task: Task) -> Row:
    """The row of a summary of `OwnContexts`."""
    about = {"split": "fit", "detail": dict(summary)} | _sets(task)
    return Row.of(OWN_CONTEXTS, float(summary["to_erase"]), task.fit[0], **about)


def _sets(task: Task) -> dict[str, Any]:
    return {"dataset": "+".join(data.name for data in task.fit)}


@dataclass(frozen=True)
class GateText:
    """A text with its template, group and name."""

    text: str
    paraphrase: str
    group: str = ""
    name: str | None = None


@dataclass(frozen=True)
class GateTexts:
    """Texts of one kind, and the sets that prompts are from; none of running text."""

    kind: TextKind
    each: tuple[GateText, ...]
    sets: tuple[CounterfactualSet, ...] = ()

    @property
    def dataset(self) -> str:
        return "+".join(data.name for data in self.sets) or DATASETS["validation"]


def gate_texts(task: Task) -> list[GateTexts]:
    """Validation data of each kind that the task has, each text once."""
    running = dict.fromkeys(task.neutral.get("validation", ()))
    every = [GateTexts("neutral", tuple(GateText(text, text) for text in running))]
    agreement = task.agreement.get("validation")
    prompts: dict[TextKind, Sequence[CounterfactualSet]] = {
        "agreement": [agreement] if agreement else [],
        "erase": task.validation,
    }
    for kind, sets in prompts.items():
        samples = (sample for data in sets for sample in data.samples)
        each = {
            v.text: GateText(v.text, sample.template, v.group, v.name)
            for sample in samples
            for v in sample.variations
        }
        every.append(GateTexts(kind, tuple(each.values()), tuple(sets)))
    return [texts for texts in every if texts.each]


@dataclass(frozen=True)
class Opening:
    """How far a gate is open, from 0 to 1, at the tokens of some texts."""

    texts: GateTexts
    opened: Float64[np.ndarray, " token"]
    text: Int[np.ndarray, " token"]
    """Index into `texts.each`."""


def gate_rows(openings: Iterable[Opening], seed: int) -> list[Row]:
    """A row `gate_open` for each kind: the mean over tokens of the openings of one gate.

    The detail has the share of tokens at which the gate was not wholly closed, with its interval,
    the share at which it was wholly open, and how many tokens there are.
    """
    rows = []
    for opening in openings:
        texts, opened, count = opening.texts, opening.opened, len(opening.texts.each)
        drawn = _clusters(texts, seed)
        tokens, *sums = (
            drawn.mean(np.bincount(opening.text, own, count))
            for own in (np.ones(len(opened)), opened, np.asarray(opened > 0, dtype=np.float64))
        )
        with np.errstate(invalid="ignore"):  # a draw may hold nobody of a drawn template
            mean, share = (own / tokens for own in sums)
        not_closed = drawn.estimate(share, within=(0, 1), whole=1).columns
        detail: dict[str, Any] = dict(zip(_SHARES, not_closed.values(), strict=True))
        detail |= {"wholly_open": float(np.mean(opened >= 1)), "tokens": len(opened)}
        about = {"dataset": texts.dataset, "facets": {"texts": texts.kind}, "split": "validation"}
        first, value = next(iter(texts.sets), None), drawn.estimate(mean, within=(0, 1))
        rows.append(Row.of(OPEN, value, first, **about, n=count, detail=detail))
    return rows


def _clusters(texts: GateTexts, seed: int) -> Clusters:
    """Templates, and names of each group; of running text, the texts."""
    table = pd.DataFrame(map(vars, texts.each))
    kinds: dict[tuple[object, ...], Int[np.ndarray, " text"]] = {}
    kinds[texts.dataset, "templates" if texts.sets else "texts"] = table.paraphrase.factorize()[0]
    for group, own in table[table["name"].notna()].groupby("group", sort=False):
        kinds[texts.dataset, "names", group] = np.full(len(table), -1)
        kinds[texts.dataset, "names", group][own.index] = own["name"].factorize()[0]
    return Clusters(seed, kinds)
