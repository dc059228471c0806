"""The metric `paraphrases`: the spread of R over paraphrases of a template (Seshadri et al. 2022).

Comes in: a task's own sets, whose samples say which of them are paraphrases of each other. Goes
out:
for each set, how R spreads over templates and how often its conclusion flips, with and without an
edit; and whether what an edit removes is removed on templates outside the fit as well.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import unknown
from countergen_edit.data.axis import Split
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.paraphrases.spread import reductions, spread_over_paraphrases
from countergen_edit.metrics.r import resampled_abs_r
from countergen_edit.metrics.r.effect_rows import among
from countergen_edit.metrics.r.paired import HALF, LEAST
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import Weights, estimate

CORRECTIONS = ("none", "holm", "fdr_bh")
NO_PARAPHRASES = "no sample of this set is a paraphrase of another"


class Paraphrases(Metric):
    """Spread of R over the templates of each set, before and after an edit.

    Args:
        correction: for the tests of one set: `fdr_bh`, `holm` or `none`.

    Raises:
        UserError: no such correction.
    """

    title = "Paraphrases"
    is_slow = True

    def __init__(self, correction: str = "fdr_bh") -> None:
        if correction not in CORRECTIONS:
            raise unknown("correction", correction, CORRECTIONS)
        self.correction = correction

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Rows of every set; under an edit also of what it removed, template by template."""
        if split != "test":
            return []
        rows = []
        for part, sets in self.task.measured:
            for data in sets:
                came = context.scores(data, None).pairs if edit else []
                of_set = []
                for i, now in enumerate(context.scores(data, edit).pairs):
                    of_set += self.spread_rows(now, context.seed)
                    of_set += holding_rows(came[i], now, context.seed) if edit else []
                rows += [replace(row, split=part) for row in among(of_set, len(data.groups))]
        return rows if edit is None else rows + self.outside_rows(context, edit)

    def spread_rows(self, scores: SetScores, seed: int) -> list[Row]:
        """Rows `r_sd_over_paraphrases`, `paraphrases_holding`, flip rate and variance share.

        The first holds the figures of every template in `detail`; where nothing is paraphrased its
        value is None and the others are left out.
        """
        data = scores.data
        spread = spread_over_paraphrases(scores, seed, self.correction)
        if spread is None:
            reason = {"reason": NO_PARAPHRASES}
            return [Row.of_set(data, "r_sd_over_paraphrases", math.nan, seed=seed, detail=reason)]
        count = len(spread.paraphrases)
        by_paraphrase = [
            {"paraphrase": text, "r": float(r), "mean_abs_r": float(a), "leans": int(lean)} | counts
            for text, r, a, lean, counts in zip(
                spread.paraphrases,
                spread.r,
                spread.abs_r,
                spread.leans,
                spread.by_category,
                strict=True,
            )
        ]
        detail: dict[str, Any] = {
            "paraphrases": by_paraphrase,
            "range": [float(spread.abs_r.min()), float(spread.abs_r.max())],
            "sd_of_r": float(spread.r.std(ddof=1)),
            "correction": self.correction,
            "tested": spread.tested,
        }
        holding = int((spread.leans == 1).sum())
        flips, of = spread.flips
        values = {
            "paraphrases_holding": (holding, count, {"against": int((spread.leans == -1).sum())}),
            "paraphrase_flip_rate": (flips / of, of, {}),
            "paraphrase_variance_share": (spread.share_of_paraphrases, count, {}),
        }
        return [
            Row.of_set(data, "r_sd_over_paraphrases", spread.sd, n=count, seed=seed, detail=detail),
            *(
                Row.of_set(data, metric, float(value), n=n, seed=seed, detail=more)
                for metric, (value, n, more) in values.items()
            ),
        ]

    def outside_rows(self, context: EvaluationContext, edit: NamedEdit) -> list[Row]:
        """`reduction_gap`: what is gone of mean |R| on fitting sets less that on other templates.

        The part of an edit's effect that does not reach templates outside the fit. Mean |R| is
        averaged over the sets of a split; sets are drawn each on their own, so that the difference
        has an interval over all their templates and names.
        """
        seed = context.seed
        means: dict[Split, Float64[np.ndarray, " resample"]] = {}
        drawn: list[Weights] = []
        for split, sets in self.task.measured:
            both = [[context.scores(data, e).pairs for data in sets] for e in (None, edit)]
            pairs = [*zip(*(chain(*side) for side in both), strict=True)]
            if pairs:
                left = [[resampled_abs_r(s, seed) for s in pair] for pair in pairs]
                before, after = (
                    np.mean(np.broadcast_arrays(*side), axis=0) for side in zip(*left, strict=True)
                )
                with np.errstate(divide="ignore", invalid="ignore"):
                    means[split] = 1 - after / before
                drawn += [w for unedited, _ in pairs for w in unedited.weights(seed)]
        if "fit" not in means or "test" not in means:
            return []
        gap = estimate(np.subtract(*np.broadcast_arrays(means["fit"], means["test"])), *drawn)
        detail = {split: _finite(values[0]) for split, values in means.items()}
        sets = self.task.test
        row = Row.of_set(
            sets[0], "reduction_gap", gap, dataset="", n=len(sets), seed=seed, detail=detail
        )
        return [replace(row, split="test")]


def holding_rows(before: SetScores, after: SetScores, seed: int) -> list[Row]:
    """On how many templates an edit lowers mean |R|: at all, and by half or more.

    `reduction_holding` counts where 2 % of it or more are gone and the interval over names lies
    above zero, `halving_holding` where that lies above a half; without names the value does.
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
