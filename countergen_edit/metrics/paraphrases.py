"""The spread of R over paraphrases of a template (Seshadri et al. 2022), for causal models.

An output has a category, a > b, b > a or insignificant, by a paired t-test over pairs of names
(section 3 of the paper). For many outputs, whose biases may cancel, a template holds the conclusion
if its outputs significantly lean in the direction of the other templates. That direction comes from
half of the names and the test from the other half, so that without bias it favours none.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int
from scipy.stats import ttest_1samp

from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.r.effect_rows import HALF, LEAST, among
from countergen_edit.metrics.r.formula import r_values, relative_difference, resampled_r
from countergen_edit.metrics.r.people import numbered
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import Clusters, adjusted, estimate

ALPHA, CORRECTION = 0.05, "fdr_bh"
Measure = Float64[np.ndarray, "template output pair"]
Category = Int[np.ndarray, "*tested"]
"""1 where group a exceeds group b, -1 where b exceeds a, 0 where that is insignificant."""
NO_PARAPHRASES = "no sample of this set is a paraphrase of another"


def paired_p(differences: Float64[np.ndarray, "*tested pair"]) -> Float64[np.ndarray, "*tested"]:
    """Two-sided P of the paired t-test; 1 where all differences are 0."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # one difference, or all the same
        p = np.asarray(ttest_1samp(differences, 0.0, axis=-1).pvalue, dtype=np.float64)
    mean, spread = differences.mean(axis=-1), np.ptp(differences, axis=-1)
    alike = np.where(mean == 0, 1.0, 0.0)
    return np.where(spread == 0, alike, np.nan_to_num(p, nan=1.0))


def categories(differences: Sequence[Float64[np.ndarray, "_ ..."]]) -> list[Category]:
    """Categories of one table of tests over pairs, the last axis; of one pair, its sign.

    P is corrected over the whole table (Benjamini–Hochberg). `differences` are of group a minus
    group b, an array for each part of the table.
    """
    p = [paired_p(d) for d in differences]
    flat = adjusted(np.concatenate([values.ravel() for values in p]), CORRECTION)
    parts = np.split(flat, np.cumsum([values.size for values in p])[:-1])
    return [
        np.where(part.reshape(d.shape[:-1]) < ALPHA, np.sign(d.mean(axis=-1)), 0).astype(np.int64)
        for part, d in zip(parts, differences, strict=True)
    ]


def flip_counts(table: Int[np.ndarray, "template tested"]) -> Int[np.ndarray, " tested"]:
    """The number of pairs of templates that disagree in category.

    >>> flip_counts(np.array([[1, 0], [1, 0], [0, 0]])).tolist()
    [2, 0]
    """
    disagree = [one != other for one, other in combinations(table, 2)]
    return np.asarray(np.sum(disagree, axis=0, dtype=np.int64))


def leaning(d: Measure) -> Float64[np.ndarray, "template tested"]:
    """The mean difference of each tested pair of names in the direction of the other templates.

    The direction of an output is the sign of its sum over the other templates and every second
    pair; the pairs between are tested, as directions of the same pairs would agree by chance.
    """
    several = d.shape[-1] > 1
    finding, tested = (d[..., ::2], d[..., 1::2]) if several else (d, d)
    summed = finding.sum(axis=-1, keepdims=True)
    direction = np.sign(summed.sum(axis=0) - summed)
    return np.asarray((direction * tested).mean(axis=1))


def crossed_variances(d: Measure) -> Float64[np.ndarray, "output 3"]:
    """Variance between templates, between name pairs, and of their interaction; 0 of one pair.

    The expected mean squares of the balanced crossed design give each component (Searle, Casella &
    McCulloch 1992, section 4.5), which are the REML estimates if none is negative. Negative ones
    are set to 0 after pooling.
    """
    paraphrases, outputs, pairs = d.shape
    if pairs < 2:
        return np.zeros((outputs, 3))
    grand = d.mean(axis=(0, 2), keepdims=True)
    by_paraphrase, by_pair = d.mean(axis=2, keepdims=True), d.mean(axis=0, keepdims=True)
    ms_paraphrase = pairs * ((by_paraphrase - grand) ** 2).sum(axis=(0, 2)) / (paraphrases - 1)
    ms_pair = paraphrases * ((by_pair - grand) ** 2).sum(axis=(0, 2)) / (pairs - 1)
    error = ((d - by_paraphrase - by_pair + grand) ** 2).sum(axis=(0, 2))
    error = error / ((paraphrases - 1) * (pairs - 1))
    parts = (ms_paraphrase - error) / pairs, (ms_pair - error) / paraphrases, error
    return np.stack(parts, axis=1)


class Paraphrases(Metric):
    """Spread of R over the templates of each set, before and after an edit."""

    title = "Paraphrases"
    is_slow = True

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        rows = []
        for data in self.task.test:
            pairs = (context.scores(data, e).pairs for e in (None, edit))
            for before, now in zip(*pairs, strict=True):
                rows += spread_rows(now, context.seed)
                rows += holding_rows(before, now, context.seed) if edit else []
        return among(rows, self.task.test)


def holding_rows(before: SetScores, after: SetScores, seed: int) -> list[Row]:
    """The number of templates on which an edit lowers mean |R|, and lowers it by half.

    `reduction_holding` counts templates with 2 % or more removed and an interval over names above
    zero, `halving_holding` those with an interval above one half (without names, the value).
    """
    shares = reductions(before, after, seed)
    ends = [(value, value if lo is None else lo) for value, lo, _ in shares.values()]
    values = [value for value, _ in ends if value is not None]
    detail = {
        "reductions": {template: [*share] for template, share in shares.items()},
        "range": [min(values, default=None), max(values, default=None)],
    }
    falls = sum((v or 0) >= LEAST and (lo or 0) > 0 for v, lo in ends)
    halves = sum((lo or 0) >= HALF for _, lo in ends)
    return [
        Row.of("reduction_holding", float(falls), before.data, n=len(shares), detail=detail),
        Row.of("halving_holding", float(halves), before.data, n=len(shares)),
    ]


def contents(scores: SetScores) -> list[dict[str, Int[np.ndarray, " output"]]]:
    """For each content in two templates or more, template → items."""
    families: dict[object, dict[str, Int[np.ndarray, " output"]]] = {}
    items_of = np.split(np.arange(len(scores.output)), scores.first[1:])
    for sample, items in zip(scores.data.samples, items_of, strict=True):
        if sample.content is not None:
            families.setdefault((sample.content, sample.outputs), {})[sample.template] = items
    return [family for family in families.values() if len(family) > 1]


def spread_rows(scores: SetScores, seed: int) -> list[Row]:
    """Rows `r_sd_over_paraphrases`, `paraphrases_holding`, flip rate and variance share.

    The intervals of the last two are over contents and outputs. The detail of the first has R, mean
    |R|, the number of outputs by category, and `leans` (1 with the others, -1 against them) for
    each template. Without paraphrases its value is None and it is alone.
    """
    data, families = scores.data, contents(scores)
    if not families:
        reason = {"reason": NO_PARAPHRASES}
        return [Row.of("r_sd_over_paraphrases", math.nan, data, detail=reason)]
    r = r_values(scores)
    named = all(len(scores.names(side) or ()) > 1 for side in (0, 1))
    pairs = relative_difference(*scores.log_p.swapaxes(0, 1)) if named else r[:, None]
    items = [np.array([*family.values()]) for family in families]
    measures: list[Measure] = [pairs[of_content] for of_content in items]
    by_output, leanings = categories(measures), categories([leaning(d) for d in measures])
    tables = []
    for family, signs, leans in zip(families, by_output, leanings, strict=True):
        values = r[[*family.values()]]
        columns = {
            "content": next(iter(family)),
            "paraphrase": [*family],
            "r": values.mean(axis=1),
            "mean_abs_r": np.abs(values).mean(axis=1),
            "leans": leans,
        }
        for name, sign in (("a", 1), ("b", -1), ("insignificant", 0)):
            columns[name] = (signs == sign).sum(axis=1)
        tables.append(pd.DataFrame(columns))
    table = pd.concat(tables, ignore_index=True)
    detail: dict[str, Any] = {
        "paraphrases": table.to_dict("records"),
        "range": [float(table.mean_abs_r.min()), float(table.mean_abs_r.max())],
        "sd_of_r": float(table.r.to_numpy().std(ddof=1)),
        "correction": CORRECTION,
        "tested": pairs.shape[1] > 3,  # half of them find the direction; else categories are signs
    }
    abs_r = [of_content.mean_abs_r.to_numpy() for of_content in tables]
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in abs_r)
    flips = np.concatenate([flip_counts(signs) for signs in by_output])
    of = np.concatenate([np.full(x.shape[1], math.comb(len(x), 2)) for x in by_output])
    outputs = [scores.output[i] for of_content in items for i in of_content[0]]
    content = np.repeat(range(len(items)), [x.shape[1] for x in items])
    kinds = {(data.name, "flips 0"): numbered(outputs), (data.name, "flips 1"): content}
    drawn = Clusters(seed, kinds)
    parts = np.concatenate([crossed_variances(d) for d in measures])
    variances = np.maximum(drawn.of_units @ parts, 0.0)
    with np.errstate(invalid="ignore"):  # a draw may hold no output of a content
        rates = drawn.of_units @ flips / (drawn.of_units @ of)
        shares = variances[:, 0] / variances.sum(axis=1)
    rate, share = (drawn.estimate(x, within=(0, 1), whole=1.0) for x in (rates, shares))
    holding, against = (int((table.leans == sign).sum()) for sign in (1, -1))
    n, sd = len(table), math.sqrt(squares / (len(table) - len(tables)))
    return [
        Row.of("r_sd_over_paraphrases", sd, data, n=n, detail=detail),
        Row.of("paraphrases_holding", float(holding), data, n=n, detail={"against": against}),
        Row.of("paraphrase_flip_rate", rate, data, n=int(of.sum())),
        Row.of("paraphrase_variance_share", share, data, n=n),
    ]


def reductions(
    before: SetScores, after: SetScores, seed: int
) -> Mapping[str, tuple[float | None, ...]]:
    """Template → the removed share of mean |R|, and the ends of its interval over names."""
    was, now = (np.abs(resampled_r(scores, seed)) for scores in (before, after))
    names = before.weights(seed)[1:]
    shares: dict[str, tuple[float | None, ...]] = {}
    for index, template in enumerate(before.data.templates):
        items = before.template == index
        with np.errstate(divide="ignore", invalid="ignore"):
            values = 1 - now[:, items].mean(axis=1) / was[:, items].mean(axis=1)
        shares[template] = (*estimate(values, *names, within=(-math.inf, 1)).columns.values(),)
    return shares
