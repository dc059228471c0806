"""How sure a probe's accuracy is, where rows of one person depend on each other.

Comes in: which rows a probe got right, and whose each row is. Goes out: an interval of the share.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int
from statsmodels.stats.proportion import proportion_confint


def interval(
    hits: Bool[np.ndarray, " measured"], ids: Int[np.ndarray, " measured"]
) -> tuple[float, float]:
    """Wilson's 95 % interval of the share of hits, for as many trials as the ids are worth.

    That is p(1 - p) over the variance that ids bring (a sandwich estimate), at most a trial a row,
    and no fewer than if rows of one id were all alike (Kish, Survey Sampling, 1965).
    """
    p, sizes = float(hits.mean()), np.bincount(ids)
    sizes, sums = sizes[sizes > 0], np.bincount(ids, hits - p)[sizes > 0]
    fewest = len(hits) ** 2 / float((sizes**2).sum())
    variance = float((sums**2).sum()) / len(hits) ** 2 * len(sizes) / max(len(sizes) - 1, 1)
    count = min(max(p * (1 - p) / variance, fewest), len(hits)) if variance else fewest
    lo, hi = proportion_confint(p * count, count, method="wilson")
    return float(lo), float(hi)
