"""No bias figure without its spread over wordings (Seshadri et al. 2022), for causal models.

Comes in: the audit's own sets, whose samples say which of them are rewordings of each other. Goes
out: for each set, how R spreads over wordings and how often its conclusion flips, with and without
an edit; and whether what an edit removes is removed on wordings outside the fit as well.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from countergen_edit.data.axis import Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.edits import Edit
from countergen_edit.errors import unknown
from countergen_edit.metrics.base import Metric, Subject, register
from countergen_edit.metrics.r import (
    r_values,
    relative_difference,
    resampled_abs_r,
    resampled_r,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import Weights, estimate
from countergen_edit.metrics.wordings import (
    Measure,
    categories,
    flip_counts,
    leaning,
    variance_parts,
)
from countergen_edit.models import LanguageModel

CORRECTIONS = ("none", "holm", "fdr_bh")
NO_REWORDINGS = "no sample of this set is a rewording of another"


@dataclass(frozen=True)
class Content:
    """The wordings of one content: items of a set's scores, by wording and output."""

    items: Int[np.ndarray, "wording output"]
    wordings: tuple[str, ...]


def contents(data: CounterfactualSet) -> list[Content]:
    """What a set says in two wordings or more, with the same outputs after each."""
    found: dict[tuple[str, tuple[str, ...]], dict[str, list[int]]] = {}
    first = 0
    for sample in data.samples:
        if sample.content is not None:
            family = found.setdefault((sample.content, sample.outputs), {})
            family[sample.template] = list(range(first, first + len(sample.outputs)))
        first += len(sample.outputs)
    return [Content(np.array([*f.values()]), tuple(f)) for f in found.values() if len(f) > 1]


def paired_r(scores: SetScores, seed: int) -> Float64[np.ndarray, "item pair"]:
    """R of every item for each pair of names; R itself where there are no names to pair."""
    named = all(len(scores.name_weights(seed, side)) > 1 for side in (0, 1))
    if not named:
        return r_values(scores)[:, None]
    return relative_difference(scores.log_p[:, 0], scores.log_p[:, 1])


@dataclass(frozen=True)
class Spread:
    """How the figures of one set spread over its wordings; all NaN-free."""

    wordings: tuple[str, ...]
    r: Float64[np.ndarray, " wording"]
    abs_r: Float64[np.ndarray, " wording"]
    leans: Int[np.ndarray, " wording"]
    """1 where a wording leans significantly as the others say, -1 against them, else 0."""
    by_category: tuple[dict[str, int], ...]
    """For each wording, how many outputs fall in each category."""
    sd: float
    """Standard deviation of mean |R| over the wordings of one content."""
    flips: tuple[int, int]
    share_of_wordings: float
    tested: bool
    """Whether there were names to test over; otherwise categories are signs."""


def spread_over_wordings(scores: SetScores, seed: int, correction: str) -> Spread | None:
    """The spread of one set; None where nothing in it is reworded."""
    found = contents(scores.data)
    if not found:
        return None
    pairs, r = paired_r(scores, seed), r_values(scores)
    measures: list[Measure] = [pairs[content.items] for content in found]
    by_output = categories(measures, correction)
    leans = categories([leaning(d) for d in measures], correction)
    names = ("a", "b", "insignificant")
    counts = [
        {name: int((row == sign).sum()) for name, sign in zip(names, (1, -1, 0), strict=True)}
        for table in by_output
        for row in table
    ]
    flips = np.sum([flip_counts(table) for table in by_output], axis=0)
    abs_r = [np.abs(r[content.items]).mean(axis=1) for content in found]
    freedom = sum(len(values) - 1 for values in abs_r)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in abs_r)
    return Spread(
        wordings=tuple(text for content in found for text in content.wordings),
        r=np.concatenate([r[content.items].mean(axis=1) for content in found]),
        abs_r=np.concatenate(abs_r),
        leans=np.concatenate(leans),
        by_category=tuple(counts),
        sd=math.sqrt(squares / freedom),
        flips=(int(flips[0]), int(flips[1])),
        share_of_wordings=variance_parts(measures).share_of_wordings,
        tested=pairs.shape[1] > 3,  # half of them find the direction
    )


def reductions(
    before: SetScores, after: SetScores, seed: int
) -> Mapping[str, tuple[float, float | None, float | None]]:
    """Of each wording, the share of mean |R| that is gone, with its interval over names."""
    resampled = [np.abs(resampled_r(scores, seed)) for scores in (before, after)]
    names = before.weights(seed)[1:]
    found = {}
    for index, wording in enumerate(before.data.templates):
        own = before.template == index
        with np.errstate(divide="ignore", invalid="ignore"):
            values = 1 - resampled[1][:, own].mean(axis=1) / resampled[0][:, own].mean(axis=1)
        e = estimate(values, *names, within=(-math.inf, 1)).columns
        found[wording] = (e["value"], e["lo"], e["hi"])
    return found


@register("templates")
class Templates(Metric):
    """Spread of R over the wordings of each set, before and after an edit.

    Args:
        subject: what the audit is about.
        correction: for the tests of one set: `fdr_bh`, `holm` or `none`.
    """

    has_baseline = False

    def __init__(self, subject: Subject, correction: str = "fdr_bh") -> None:
        super().__init__(subject)
        if correction not in CORRECTIONS:
            raise unknown("correction", correction, CORRECTIONS)
        self.correction = correction

    def rows(self, model: LanguageModel, edit: Edit | None, label: str, store: Path) -> list[Row]:
        """Rows of every set; under an edit also of what it removed, wording by wording."""
        scores, found = self.subject.scores, []
        for split, sets in self.subject.measured:
            for data in sets:
                now = scores.get(model, data, edit)
                rows = self.spread_rows(now)
                if edit is not None:
                    rows.append(self.holding_row(scores.get(model, data, None), now))
                found += [replace(row, split=split) for row in rows]
        if edit is not None:
            found += self.outside_rows(model, edit)
        return found

    def spread_rows(self, scores: SetScores) -> list[Row]:
        """`r_sd_over_wordings`, `wordings_holding`, `wording_flip_rate`, `wording_variance_share`.

        The first holds the figures of every wording in `detail`; where nothing is reworded its
        value is None and the others are left out.
        """
        data, seed = scores.data, self.subject.seed
        spread = spread_over_wordings(scores, seed, self.correction)
        if spread is None:
            reason = {"reason": NO_REWORDINGS}
            return [Row.of_set(data, "r_sd_over_wordings", math.nan, seed=seed, detail=reason)]
        count = len(spread.wordings)
        by_wording = [
            {"wording": text, "r": float(r), "mean_abs_r": float(a), "leans": int(lean)} | counts
            for text, r, a, lean, counts in zip(
                spread.wordings,
                spread.r,
                spread.abs_r,
                spread.leans,
                spread.by_category,
                strict=True,
            )
        ]
        detail: dict[str, Any] = {
            "wordings": by_wording,
            "range": [float(spread.abs_r.min()), float(spread.abs_r.max())],
            "sd_of_r": float(spread.r.std(ddof=1)),
            "correction": self.correction,
            "tested": spread.tested,
        }
        holding = int((spread.leans == 1).sum())
        flips, of = spread.flips
        values = {
            "wordings_holding": (holding, count, {"against": int((spread.leans == -1).sum())}),
            "wording_flip_rate": (flips / of, of, {}),
            "wording_variance_share": (spread.share_of_wordings, count, {}),
        }
        return [
            Row.of_set(data, "r_sd_over_wordings", spread.sd, n=count, seed=seed, detail=detail),
            *(
                Row.of_set(data, metric, float(value), n=n, seed=seed, detail=more)
                for metric, (value, n, more) in values.items()
            ),
        ]

    def holding_row(self, before: SetScores, after: SetScores) -> Row:
        """`reduction_holding`: on how many wordings the edit removes some of mean |R|, surely.

        Surely means that the interval over names lies above zero; without names, that the value
        does.
        """
        seed = self.subject.seed
        found = reductions(before, after, seed)
        holds = sum((value if lo is None else lo or 0) > 0 for value, lo, _ in found.values())
        values = [value for value, _, _ in found.values()]
        detail = {
            "reductions": {wording: list(r) for wording, r in found.items()},
            "range": [min(values), max(values)],
        }
        return Row.of_set(
            before.data, "reduction_holding", float(holds), n=len(found), seed=seed, detail=detail
        )

    def outside_rows(self, model: LanguageModel, edit: Edit) -> list[Row]:
        """`reduction_gap`: what is gone of mean |R| on fitting sets less that on other wordings.

        The part of an edit's effect that does not reach wordings outside the fit. Mean |R| is
        averaged over the sets of a split; sets are drawn each on their own, so that the difference
        has an interval over all their wordings and names.
        """
        seed, scores = self.subject.seed, self.subject.scores
        means: dict[Split, Float64[np.ndarray, " resample"]] = {}
        drawn: list[Weights] = []
        for split, sets in self.subject.measured:
            pairs = [(scores.get(model, d, None), scores.get(model, d, edit)) for d in sets]
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
        sets = [d for split, group in self.subject.measured if split == "test" for d in group]
        row = Row.of_set(
            sets[0], "reduction_gap", gap, dataset="", n=len(sets), seed=seed, detail=detail
        )
        return [replace(row, split="test")]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
