"""Checks that a model has learned what was planted, family by family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pandas import DataFrame
from scipy.special import logsumexp
from scipy.stats import pearsonr

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.metrics.costs.agreement import agreement_rows
from countergen_edit.metrics.r.formula import relative_difference
from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.scores import score
from countergen_edit.models import LanguageModel
from countergen_edit.testbed import Truth, load_axis

PAIRS = [("egypt_male", "usa_male"), ("mexico_male", "usa_male"), ("egypt_female", "usa_female")]
"""Groups of nationality."""


def verify_testbed(model: LanguageModel, truth: Truth) -> DataFrame:
    """The planted and the measured effects on test data, a line for each family.

    Names that were scored are compared with the truth about these names (R, and what names lean
    to over all families); the group effect in nats, an estimate over names, with that of all.
    """
    lines = {}
    for family in truth.families:
        axis = load_axis(truth.of(family, "test")[0].axis)
        pairs: Sequence[Any] = [None] if axis.name == "gender" else PAIRS
        sets = [truth.counterfactual_set(family, "test", axis, pair) for pair in pairs]
        lines[family] = _line(model, truth, family, sets)
    return DataFrame.from_dict(lines, orient="index")


def agreement_shares(model: LanguageModel, truth: Truth) -> dict[str, float | None]:
    """P(right form) of each group, and of both under the empty name."""
    scores = score(model, truth.agreement_set("test", load_axis("gender")))
    rows = agreement_rows(scores, seed=truth.seed)
    return {"" if row.group_b else row.group_a: row.value for row in rows}


def _line(
    model: LanguageModel, truth: Truth, family: str, sets: Sequence[CounterfactualSet]
) -> dict[str, Any]:
    r, nats, leanings, squared = [], [], [], []
    for data in sets:
        measured = score(model, data)
        squared.append(GroupEffect(measured, truth.seed).squared)
        log_ps = truth.scores(data), measured.log_p
        r.append([relative_difference(*logsumexp(log_p, axis=2).T) for log_p in log_ps])
        _, effect = truth.planted(data.pairs[0])
        planted = [effect[s.template, output] for s in data.samples for output in s.outputs]
        nats.append([planted, np.subtract(*measured.log_p.mean(axis=2).T)])
        people = [[v.name or "" for v in data.samples[0].of(group)] for group in data.groups]
        a = np.array([[truth.leanings.strengths(n, family)[0] for n in side] for side in people])
        outputs = len(data.samples[0].outputs)
        by_output = measured.log_p.reshape(len(data.samples), outputs, 2, -1).mean(axis=0)
        u = truth.leanings.directions(family, outputs)[0]
        shown = np.einsum("o,ogn->gn", u, by_output) / outputs
        leanings.append([(x - x.mean(axis=1, keepdims=True)).ravel() for x in (a, shown)])
    (r_0, r_1), (nats_0, nats_1), names = (np.hstack(parts) for parts in (r, nats, leanings))
    return {
        "n": len(r_0),
        "mean |R| planted": np.abs(r_0).mean(),
        "mean |R|": np.abs(r_1).mean(),
        "difference of R": np.abs(r_0 - r_1).mean(),
        "correlation of R": _correlation(r_0, r_1),
        "effect planted": np.sqrt(np.mean(nats_0**2)),
        "effect": np.sqrt(np.mean(squared).clip(0)),
        "correlation of items": _correlation(nats_0, nats_1),
        "correlation of names": _correlation(*names),
    }


def _correlation(planted: Any, measured: Any) -> float:
    """Pearson's; NaN where the planted values are constant."""
    return pearsonr(planted, measured).statistic if np.ptp(planted) > 1e-9 else np.nan
