"""How long the two sides' continuations are: FairPair's check that length explains no difference.

Comes in: sampled prompts. Goes out: `fairpair_length` of either side and, by each test,
`fairpair_length_difference`. Nothing is refused: where there is nothing to test, p is None.

The paper (section 4.1) says that lengths of g(p(x)) and p(g(x)) do not differ significantly, and
names neither unit nor test. Here the unit is words, and the tests are Welch's over all
continuations, which is the plain reading, and ours: the paired t-test over prompts, recommended,
for prompts differ in how long an answer they get, and are what the claim is to hold beyond.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.fairpair import word_list
from countergen_edit.metrics.fairpair.continuations import Sampled
from countergen_edit.metrics.fairpair.rows import FairPairRows
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate
from countergen_edit.metrics.template_tests import paired_p

SOURCE, TARGET = "p(g(x))", "g(p(x))"
"""The sides: continuations of x, perturbed, that passed the filters; and those of p(x)."""
RECOMMENDED, PLAIN = "prompts", "continuations"
"""What each test is over."""


def length_rows(make: FairPairRows, sampled: Sequence[Sampled]) -> list[Row]:
    """Words a continuation of either side, and their difference, g(p(x)) minus p(g(x)).

    Prompts without a continuation on one side, none having passed the filters, take no part.
    """
    sides = {
        SOURCE: [_lengths(s.p_g_x) for s in sampled],
        TARGET: [_lengths(s.g_px) for s in sampled],
    }
    means = {
        side: np.array([own.mean() if own.size else math.nan for own in of_prompts])
        for side, of_prompts in sides.items()
    }
    rows = [
        make.row(
            "fairpair_length",
            make.mean(values),
            sum(own.size for own in sides[side]),
            {"side": side},
        )
        for side, values in means.items()
    ]
    by_prompt = means[TARGET] - means[SOURCE]
    known = by_prompt[np.isfinite(by_prompt)]
    p = float(paired_p(known)) if known.size > 1 else None
    over_prompts = make.mean(by_prompt)
    pooled, p_pooled = welch(np.concatenate(sides[TARGET]), np.concatenate(sides[SOURCE]))
    for test, difference, own_p, n in (
        (RECOMMENDED, over_prompts, p, known.size),
        (PLAIN, pooled, p_pooled, sum(row.n for row in rows)),
    ):
        rows.append(
            make.row("fairpair_length_difference", difference, int(n), {"test": test}, p=own_p)
        )
    return rows


def _lengths(texts: Sequence[str]) -> Float64[np.ndarray, _]:
    return np.array([len(word_list(text)) for text in texts], dtype=np.float64)


def welch(a: Float64[np.ndarray, _], b: Float64[np.ndarray, _]) -> tuple[Estimate, float | None]:
    """Mean of a minus mean of b, with the interval and p of Welch's t-test.

    Neither where a side has fewer than two lengths, or where no side varies.

    >>> welch(np.array([1.0, 2.0, 3.0]), np.array([2.0]))[1] is None
    True
    """
    from scipy.stats import ttest_ind

    nan = math.nan
    difference = float(a.mean() - b.mean()) if a.size and b.size else nan
    if min(a.size, b.size) < 2 or np.ptp(a) == np.ptp(b) == 0:
        return Estimate(difference, nan, nan, nan), None
    test = ttest_ind(a, b, equal_var=False)
    ends = test.confidence_interval()
    error = difference / float(test.statistic) if test.statistic else nan
    return Estimate(difference, float(ends.low), float(ends.high), error), float(test.pvalue)
