"""Tests of conclusions over paraphrases of a template (Seshadri et al. 2022).

An output has a category, a > b, b > a or insignificant, by a paired t-test over pairs of names
(section 3 of the paper). For many outputs, whose biases may cancel, a template holds the conclusion
if its outputs significantly lean in the direction of the other templates. That direction comes from
half of the names and the test from the other half, so that without bias it favours none.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float64, Int
from scipy.stats import ttest_1samp

from countergen_edit.metrics.statistics import adjusted

ALPHA, CORRECTION = 0.05, "fdr_bh"
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


def categories(differences: Sequence[Float64[np.ndarray, "_ ..."]]) -> list[Category]:
    """Categories of one table of tests over pairs, the last axis; of one pair, its sign.

    P is corrected over the whole table (Benjamini–Hochberg).

    Args:
        differences: Of group a minus group b, an array for each part of the table.
    """
    p = [
        paired_p(d) if d.shape[-1] > 1 else np.where(d[..., 0] == 0, 1.0, 0.0) for d in differences
    ]
    flat = adjusted(np.concatenate([values.ravel() for values in p]), CORRECTION)
    parts = np.split(flat, np.cumsum([values.size for values in p])[:-1])
    return [
        np.where(part.reshape(d.shape[:-1]) < ALPHA, np.sign(d.mean(axis=-1)), 0).astype(np.int64)
        for part, d in zip(parts, differences, strict=True)
    ]


def flip_counts(table: Int[np.ndarray, "template ..."]) -> tuple[int, int]:
    """The number of pairs of templates that disagree in category, and of all pairs.

    >>> flip_counts(np.array([[1], [1], [0]]))
    (2, 3)
    """
    pairs = list(combinations(range(len(table)), 2))
    flips = sum(int((table[i] != table[j]).sum()) for i, j in pairs)
    return flips, len(pairs) * int(np.prod(table.shape[1:]))


def leaning(d: Measure) -> Float64[np.ndarray, "template tested"]:
    """The mean difference of each tested pair of names in the direction of the other templates.

    The direction of an output is the sign of its sum over the other templates and every second
    pair; the pairs between are tested, since directions of the same pairs would agree by chance.
    A single pair serves for both.
    """
    several = d.shape[-1] > 1
    finding, tested = (d[..., ::2], d[..., 1::2]) if several else (d, d)
    summed = finding.sum(axis=-1, keepdims=True)
    direction = np.sign(summed.sum(axis=0) - summed)
    aligned: Float64[np.ndarray, "template tested"] = (direction * tested).mean(axis=1)
    return aligned


def variance_parts(measures: Sequence[Measure]) -> tuple[float, float, float]:
    """Variance between templates, between name pairs, and of their interaction.

    The expected mean squares of the balanced crossed design, pooled over outputs, give each
    component (Searle, Casella & McCulloch 1992, section 4.5), which are the REML estimates if none
    is negative. A negative one is set to 0 after pooling.
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
    between, of_pairs, rest = (float(max(part, 0.0)) for part in sums)
    return between, of_pairs, rest
