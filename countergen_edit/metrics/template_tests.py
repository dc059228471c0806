"""How far a conclusion depends on how a prompt is worded (Seshadri et al. 2022).

Comes in: a measure for every template, output and pair of names. Goes out: categories by a paired
t-test, how often they flip from template to template, whether each template leans as the others do,
and how much of the variance lies between templates and how much between names.

What is concluded. About one output: a > b, b > a or insignificant, by a paired t-test over pairs
of names (the paper's section 3). About a family of many outputs, where opposite biases cancel:
that its outputs lean the way the *other* templates say. A template for which this is significant
holds the conclusion. The direction comes from other templates and from half of the names, the test
from the other half, so that without bias no direction is favoured.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float64, Int
from scipy.stats import ttest_1samp

from countergen_edit.metrics.statistics import adjusted

ALPHA = 0.05
Measure = Float64[np.ndarray, "template output pair"]
Category = Int[np.ndarray, "*tested"]
"""1 where group a exceeds group b, -1 where b exceeds a, 0 where that is insignificant."""


def paired_p(differences: Float64[np.ndarray, "*tested pair"]) -> Float64[np.ndarray, "*tested"]:
    """Two-sided p-value of the paired t-test; 1 where there is no difference at all.

    >>> float(paired_p(np.array([0.1, 0.2, 0.3])).round(4))
    0.0742
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # differences that are all the same
        p = np.asarray(ttest_1samp(differences, 0.0, axis=-1).pvalue, dtype=np.float64)
    mean, spread = differences.mean(axis=-1), np.ptp(differences, axis=-1)
    values: Float64[np.ndarray, "*tested"] = np.where(
        spread == 0, np.where(mean == 0, 1.0, 0.0), np.nan_to_num(p, nan=1.0)
    )
    return values


def categories(
    differences: Sequence[Float64[np.ndarray, "_ ..."]], method: str = "none"
) -> list[Category]:
    """The category of everything tested in one table, `pair` being the last axis.

    A single pair cannot be tested: what has only one is categorised by its sign.

    Args:
        differences: of group a minus group b, one array for each part of the table.
        method: `none` tests each at 5 %; `holm` and `fdr_bh` over the whole table.
    """
    p = [
        paired_p(d) if d.shape[-1] > 1 else np.where(d[..., 0] == 0, 1.0, 0.0) for d in differences
    ]
    flat = np.concatenate([values.ravel() for values in p])
    if method != "none":
        flat = adjusted(flat, method)
    parts = np.split(flat, np.cumsum([values.size for values in p])[:-1])
    return [
        np.where(part.reshape(d.shape[:-1]) < ALPHA, np.sign(d.mean(axis=-1)), 0).astype(np.int64)
        for part, d in zip(parts, differences, strict=True)
    ]


def flip_counts(table: Int[np.ndarray, "template ..."]) -> tuple[int, int]:
    """Of all pairs of templates (of each output), how many disagree in category, and how many are.

    >>> flip_counts(np.array([[1], [1], [0]]))
    (2, 3)
    """
    pairs = list(combinations(range(len(table)), 2))
    flips = sum(int((table[i] != table[j]).sum()) for i, j in pairs)
    return flips, len(pairs) * int(np.prod(table.shape[1:]))


def leaning(d: Measure) -> Float64[np.ndarray, "template tested"]:
    """By pair of names, the mean difference in the direction that the other templates find.

    The direction of an output is the sign of its sum over the other templates and every second
    pair;
    the pairs in between are what is tested. Directions found on the tested pairs themselves would
    agree with them by chance. A single pair serves for both, and is not tested.
    """
    several = d.shape[-1] > 1
    finding, tested = (d[..., ::2], d[..., 1::2]) if several else (d, d)
    summed = finding.sum(axis=-1, keepdims=True)
    direction = np.sign(summed.sum(axis=0) - summed)
    aligned: Float64[np.ndarray, "template tested"] = (direction * tested).mean(axis=1)
    return aligned


@dataclass(frozen=True)
class VarianceParts:
    """Variance components of one measure, summed over what they were pooled from."""

    paraphrases: float
    names: float
    rest: float
    """Names behaving differently from template to template."""

    @property
    def total(self) -> float:
        return self.paraphrases + self.names + self.rest

    @property
    def share_of_paraphrases(self) -> float:
        """Share of the variance that lies between templates; NaN where nothing varies."""
        return self.paraphrases / self.total if self.total > 0 else float("nan")


def variance_parts(measures: Sequence[Measure]) -> VarianceParts:
    """Two-way random-effects analysis of variance, templates × name pairs, pooled over outputs.

    Expected mean squares of the balanced crossed design give each component in closed form (Searle,
    Casella & McCulloch 1992, section 4.5); where none is negative they are the REML estimates that
    a mixed model arrives at. They are pooled before a negative one is set to 0.
    """
    sums = np.zeros(3)
    for d in measures:
        paraphrases, _, pairs = d.shape
        if paraphrases < 2 or pairs < 2:
            continue
        grand = d.mean(axis=(0, 2), keepdims=True)
        by_paraphrase, by_pair = d.mean(axis=2, keepdims=True), d.mean(axis=0, keepdims=True)
        ms_paraphrase = pairs * ((by_paraphrase - grand) ** 2).sum() / (paraphrases - 1)
        ms_pair = paraphrases * ((by_pair - grand) ** 2).sum() / (pairs - 1)
        rest = ((d - by_paraphrase - by_pair + grand) ** 2).sum() / (
            (paraphrases - 1) * (pairs - 1)
        )
        sums += [(ms_paraphrase - rest) / pairs, (ms_pair - rest) / paraphrases, rest]
    return VarianceParts(*(float(max(part, 0.0)) for part in sums))
