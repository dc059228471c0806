"""The spread of R over paraphrases of a template (Seshadri et al. 2022), for causal models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r import r_values, relative_difference, resampled_r
from countergen_edit.metrics.r.effect_rows import among
from countergen_edit.metrics.r.paired import HALF, LEAST
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import estimate
from countergen_edit.metrics.template_tests import (
    CORRECTION,
    Measure,
    categories,
    flip_counts,
    leaning,
    variance_parts,
)

NO_PARAPHRASES = "no sample of this set is a paraphrase of another"


class Paraphrases(Metric):
    """Spread of R over the templates of each set, before and after an edit."""

    title = "Paraphrases"
    is_slow = True

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows of every set; under an edit also of the removed share by template."""
        if split != "test":
            return []
        rows = []
        for data in self.task.test:
            came = context.scores(data, None).pairs if edit else []
            of_set = []
            for i, now in enumerate(context.scores(data, edit).pairs):
                of_set += spread_rows(now, context.seed)
                of_set += holding_rows(came[i], now, context.seed) if edit else []
            rows += [replace(row, split=split) for row in among(of_set, len(data.groups))]
        return rows


def holding_rows(before: SetScores, after: SetScores, seed: int) -> list[Row]:
    """The number of templates on which an edit lowers mean |R|, and lowers it by half.

    `reduction_holding` counts templates with 2 % or more removed and an interval over names above
    zero, `halving_holding` those with an interval above one half (without names, the value).
    """
    gone = [*reductions(before, after, seed).items()]
    ends = [(value, value if lo is None else lo) for _, (value, lo, _) in gone]
    values = [value for value, _ in ends if value is not None]
    detail = {
        "reductions": {paraphrase: [*share] for paraphrase, share in gone},
        "range": [min(values, default=None), max(values, default=None)],
    }
    counts = {
        "reduction_holding": sum((v or 0) >= LEAST and (lo or 0) > 0 for v, lo in ends),
        "halving_holding": sum((lo or 0) >= HALF for _, lo in ends),
    }
    return [
        Row.of_set(before.data, metric, float(count), n=len(gone), seed=seed, detail=of_some)
        for (metric, count), of_some in zip(counts.items(), (detail, {}), strict=True)
    ]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def contents(data: CounterfactualSet) -> list[dict[str, list[int]]]:
    """For each content in two templates or more, template → items of the set's scores."""
    families: dict[tuple[str, tuple[str, ...]], dict[str, list[int]]] = {}
    first = 0
    for sample in data.samples:
        if sample.content is not None:
            family = families.setdefault((sample.content, sample.outputs), {})
            family[sample.template] = list(range(first, first + len(sample.outputs)))
        first += len(sample.outputs)
    return [family for family in families.values() if len(family) > 1]


def paired_r(scores: SetScores, seed: int) -> Float64[np.ndarray, "item pair"]:
    """R of every item for each pair of names, or R itself without names."""
    named = all(len(scores.name_weights(seed, side)) > 1 for side in (0, 1))
    if not named:
        return r_values(scores)[:, None]
    return relative_difference(scores.log_p[:, 0], scores.log_p[:, 1])


def spread_rows(scores: SetScores, seed: int) -> list[Row]:
    """Rows `r_sd_over_paraphrases`, `paraphrases_holding`, flip rate and variance share.

    The detail of the first has a line for each template: R and mean |R|, whether it significantly
    `leans` with the others (1) or against them (-1), and how many outputs are likelier after group
    `a`, after `b`, or `insignificant`. Without paraphrases its value is None and it is alone.
    """
    data, paraphrased = scores.data, contents(scores.data)
    if not paraphrased:
        reason = {"reason": NO_PARAPHRASES}
        return [Row.of_set(data, "r_sd_over_paraphrases", math.nan, seed=seed, detail=reason)]
    pairs, r = paired_r(scores, seed), r_values(scores)
    items: list[Int[np.ndarray, "template output"]] = [np.array([*c.values()]) for c in paraphrased]
    measures: list[Measure] = [pairs[of_content] for of_content in items]
    by_output = categories(measures)
    abs_r = [np.abs(r[of_content]).mean(axis=1) for of_content in items]
    columns = {
        "paraphrase": [text for content in paraphrased for text in content],
        "r": np.concatenate([r[of_content].mean(axis=1) for of_content in items]),
        "mean_abs_r": np.concatenate(abs_r),
        "leans": np.concatenate(categories([leaning(d) for d in measures])),
    }
    for name, sign in (("a", 1), ("b", -1), ("insignificant", 0)):
        columns[name] = np.concatenate([(table == sign).sum(axis=1) for table in by_output])
    table = pd.DataFrame(columns)
    detail: dict[str, Any] = {
        "paraphrases": table.to_dict("records"),
        "range": [float(table.mean_abs_r.min()), float(table.mean_abs_r.max())],
        "sd_of_r": float(table.r.to_numpy().std(ddof=1)),
        "correction": CORRECTION,
        "tested": pairs.shape[1] > 3,  # half of them find the direction; else categories are signs
    }
    freedom = sum(len(values) - 1 for values in abs_r)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in abs_r)
    flips, of = np.sum([flip_counts(table) for table in by_output], axis=0).tolist()
    variances = variance_parts(measures)
    holding, against = (int((table.leans == sign).sum()) for sign in (1, -1))
    values: dict[str, tuple[float, int, dict[str, Any]]] = {
        "r_sd_over_paraphrases": (math.sqrt(squares / freedom), len(table), detail),
        "paraphrases_holding": (float(holding), len(table), {"against": against}),
        "paraphrase_flip_rate": (flips / of, of, {}),
        "paraphrase_variance_share": (
            variances[0] / sum(variances) if any(variances) else math.nan,
            len(table),
            {},
        ),
    }
    return [
        Row.of_set(data, metric, value, n=n, seed=seed, detail=own)
        for metric, (value, n, own) in values.items()
    ]


def reductions(
    before: SetScores, after: SetScores, seed: int
) -> Mapping[str, tuple[float, float | None, float | None]]:
    """Template → the removed share of mean |R|, with its interval over names."""
    resampled = [np.abs(resampled_r(scores, seed)) for scores in (before, after)]
    names = before.weights(seed)[1:]
    by_paraphrase = {}
    for index, paraphrase in enumerate(before.data.templates):
        own = before.template == index
        with np.errstate(divide="ignore", invalid="ignore"):
            values = 1 - resampled[1][:, own].mean(axis=1) / resampled[0][:, own].mean(axis=1)
        e = estimate(values, *names, within=(-math.inf, 1)).columns
        by_paraphrase[paraphrase] = (e["value"], e["lo"], e["hi"])
    return by_paraphrase
