"""How R of one set spreads over its templates, and on which of them an edit removes bias.

Comes in: scores of a set whose samples say which of them are paraphrases of each other. Goes out:
the spread of R and mean |R|, how often a conclusion flips, and the share that is gone of each
template, with its interval over names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.metrics.r import r_values, relative_difference, resampled_r
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import estimate
from countergen_edit.metrics.template_tests import (
    Measure,
    categories,
    flip_counts,
    leaning,
    variance_parts,
)


@dataclass(frozen=True)
class Content:
    """The templates of one content: items of a set's scores, by template and output."""

    items: Int[np.ndarray, "template output"]
    paraphrases: tuple[str, ...]


def contents(data: CounterfactualSet) -> list[Content]:
    """What a set says in two templates or more, with the same outputs after each."""
    families: dict[tuple[str, tuple[str, ...]], dict[str, list[int]]] = {}
    first = 0
    for sample in data.samples:
        if sample.content is not None:
            family = families.setdefault((sample.content, sample.outputs), {})
            family[sample.template] = list(range(first, first + len(sample.outputs)))
        first += len(sample.outputs)
    return [Content(np.array([*f.values()]), tuple(f)) for f in families.values() if len(f) > 1]


def paired_r(scores: SetScores, seed: int) -> Float64[np.ndarray, "item pair"]:
    """R of every item for each pair of names; R itself where there are no names to pair."""
    named = all(len(scores.name_weights(seed, side)) > 1 for side in (0, 1))
    if not named:
        return r_values(scores)[:, None]
    return relative_difference(scores.log_p[:, 0], scores.log_p[:, 1])


@dataclass(frozen=True)
class Spread:
    """How the figures of one set spread over its templates; all NaN-free."""

    paraphrases: tuple[str, ...]
    r: Float64[np.ndarray, " template"]
    abs_r: Float64[np.ndarray, " template"]
    leans: Int[np.ndarray, " template"]
    """1 where a template leans significantly as the others say, -1 against them, else 0."""
    by_category: tuple[dict[str, int], ...]
    """For each template, how many outputs fall in each category."""
    sd: float
    """Standard deviation of mean |R| over the templates of one content."""
    flips: tuple[int, int]
    share_of_paraphrases: float
    tested: bool
    """Whether there were names to test over; otherwise categories are signs."""


def spread_over_paraphrases(scores: SetScores, seed: int, correction: str) -> Spread | None:
    """The spread of one set; None where nothing in it is paraphrased."""
    paraphrased = contents(scores.data)
    if not paraphrased:
        return None
    pairs, r = paired_r(scores, seed), r_values(scores)
    measures: list[Measure] = [pairs[content.items] for content in paraphrased]
    by_output = categories(measures, correction)
    leans = categories([leaning(d) for d in measures], correction)
    names = ("a", "b", "insignificant")
    counts = [
        {name: int((row == sign).sum()) for name, sign in zip(names, (1, -1, 0), strict=True)}
        for table in by_output
        for row in table
    ]
    flips = np.sum([flip_counts(table) for table in by_output], axis=0)
    abs_r = [np.abs(r[content.items]).mean(axis=1) for content in paraphrased]
    freedom = sum(len(values) - 1 for values in abs_r)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in abs_r)
    return Spread(
        paraphrases=tuple(text for content in paraphrased for text in content.paraphrases),
        r=np.concatenate([r[content.items].mean(axis=1) for content in paraphrased]),
        abs_r=np.concatenate(abs_r),
        leans=np.concatenate(leans),
        by_category=tuple(counts),
        sd=math.sqrt(squares / freedom),
        flips=(int(flips[0]), int(flips[1])),
        share_of_paraphrases=variance_parts(measures).share_of_paraphrases,
        tested=pairs.shape[1] > 3,  # half of them find the direction
    )


def reductions(
    before: SetScores, after: SetScores, seed: int
) -> Mapping[str, tuple[float, float | None, float | None]]:
    """Of each template, the share of mean |R| that is gone, with its interval over names."""
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
