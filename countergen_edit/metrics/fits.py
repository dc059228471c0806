"""Rows about a fit: its certificate, the course of a training, and the opening of a gate.

A gate's opening is read on held-out text: neutral text at every token; prompts whose next word must
agree, and those to be erased, at their last. Neutral texts are resampled; of prompts, templates and
names.
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
from countergen_edit.erasers.certificate import ACCURACIES, Certificate
from countergen_edit.metrics.costs.neutral import DATASETS
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Clusters, Estimate

LOSS = "distillation_loss"
OWN_CONTEXTS = "own_contexts"
"""The row of the number of contexts that a model wrote itself."""
_TERMS = ("bias", "people", "keep", "neutral", "agreement", "legitimate")
"""Of a loss."""
TextKind = Literal["neutral", "agreement", "erase"]
TEXT_COLUMNS = ("text", "template", "group", "name")
OPEN = "gate_open"
_SHARES = ("not_closed", "not_closed_lo", "not_closed_hi")
CLOSED = "where it stays closed, a token is left as it was, to the last bit."


def certificate_rows(
    certificate: Certificate, task: Task, n: int, *, refitted: bool = True, remark: str = ""
) -> list[Row]:
    """Held-out accuracy of probes before and after an erasure, and whether the theorem applies.

    Parameters
    ----------
    certificate : of one fit
    task : that was fitted on
    n : activations that were fitted on, those to be kept not among them
    refitted : whether the eraser was fitted anew without the names that probes are measured on
    remark : on the fit, as the end of a sentence
    """
    figures = {a.replace("_", "_probe_", 1).removesuffix("_after"): a for a in ACCURACIES}
    figures |= {"probe_majority_rate": "majority_rate", "variance_removed": "variance_removed"}
    detail: dict[str, Any] = {"guaranteed": certificate.guaranteed, "reason": certificate.reason}
    detail |= {"refitted": refitted, "remark": remark}
    if len(task.groups) > 2:
        detail["groups"] = [*task.groups]
    rows = []
    for metric, name in figures.items():
        e = Estimate(getattr(certificate, name), *certificate.intervals.get(name, ()))
        rows.append(Row.of(metric, e, task.fit[0], dataset=_joined(task), n=n, detail=detail))
    return rows


def training_rows(
    curve: Sequence[Mapping[str, float]], contexts: Mapping[str, Any], task: Task
) -> list[Row]:
    """Rows of a fit that trains weights (`Distillation.recorded`).

    `distillation_loss` at each evaluation, with its terms; `own_contexts`, written by the model.
    """
    columns: dict[str, Any] = {"data": task.fit[0], "dataset": _joined(task)}
    rows = []
    for look in curve:
        facets = {"seed": look["seed"], "step": look["step"]}
        detail = {name: look[name] for name in _TERMS if name in look}
        rows.append(Row.of(LOSS, look["loss"], facets=facets, detail=detail, **columns))
    written = float(contexts["to_erase"])
    return [*rows, Row.of(OWN_CONTEXTS, written, split="fit", detail=dict(contexts), **columns)]


def _joined(task: Task) -> str:
    return "+".join(data.name for data in task.fit)


@dataclass(frozen=True)
class GateTexts:
    """Texts of one kind, and the sets of prompts; running text has none."""

    kind: TextKind
    table: pd.DataFrame
    """The text, template, group and name of each."""
    sets: tuple[CounterfactualSet, ...] = ()

    @classmethod
    def of(cls, kind: TextKind, sets: Sequence[CounterfactualSet]) -> GateTexts:
        """The prompts of some sets, each text once."""
        samples = (sample for data in sets for sample in data.samples)
        rows = {
            v.text: (v.text, s.template, v.group, v.name) for s in samples for v in s.variations
        }
        return cls(kind, pd.DataFrame(rows.values(), columns=TEXT_COLUMNS), tuple(sets))

    @property
    def dataset(self) -> str:
        return "+".join(data.name for data in self.sets) or DATASETS["validation"]

    def clusters(self, seed: int) -> Clusters:
        """Templates, and names of each group; of running text, the texts."""
        table = self.table
        kinds = dict[tuple[object, ...], Int[np.ndarray, " text"]]()
        unit = "templates" if self.sets else "texts"
        kinds[self.dataset, unit] = table["template"].factorize()[0]
        for group, members in table[table["name"].notna()].groupby("group", sort=False):
            names = kinds[self.dataset, "names", group] = np.full(len(table), -1)
            names[members.index] = members["name"].factorize()[0]
        return Clusters(seed, kinds)


def gate_texts(task: Task) -> list[GateTexts]:
    """Validation data of each kind that the task has, each text once."""
    running = [(text, text, "", None) for text in dict.fromkeys(task.neutral.get("validation", ()))]
    agreement = task.agreement.get("validation")
    kinds = [
        GateTexts("neutral", pd.DataFrame(running, columns=TEXT_COLUMNS)),
        GateTexts.of("agreement", [agreement] if agreement else []),
        GateTexts.of("erase", task.validation),
    ]
    return [texts for texts in kinds if len(texts.table)]


Opening = tuple[GateTexts, Float64[np.ndarray, " _"], Int[np.ndarray, " _"]]
"""Texts, the opening of a gate at each token from 0 to 1, and the token's text."""


def gate_rows(openings: Iterable[Opening], seed: int) -> list[Row]:
    """A row `gate_open` for each kind: the mean over tokens of the openings of one gate.

    The detail has the share of tokens at which it was not wholly closed and that of wholly open.
    """
    rows = []
    for texts, opened, text in openings:
        drawn = texts.clusters(seed)
        count = len(texts.table)
        tokens, *sums = (
            drawn.mean(np.bincount(text, values, count))
            for values in (np.ones(len(opened)), opened, np.asarray(opened > 0, dtype=np.float64))
        )
        with np.errstate(invalid="ignore"):  # a draw may hold nobody of a drawn template
            mean, share = (total / tokens for total in sums)
        not_closed = drawn.estimate(share, within=(0, 1), whole=1).columns
        detail: dict[str, Any] = dict(zip(_SHARES, not_closed.values(), strict=True))
        detail |= {"wholly_open": float(np.mean(opened >= 1)), "tokens": len(opened)}
        columns: Any = {"dataset": texts.dataset, "split": "validation", "n": count}
        columns |= {"facets": {"texts": texts.kind}, "detail": detail}
        value = drawn.estimate(mean, within=(0, 1))
        rows.append(Row.of(OPEN, value, next(iter(texts.sets), None), **columns))
    return rows
