"""The strength of an input perturbation: the least λ that drives two continuations apart.

    λ* = min { λ : sim(x + CID(x; x', λ), x + CID(x'; x, λ)) < τ }

(Yona et al. 2023, section 5.) A small λ* is a strong effect; λ* = 0 shows in greedy decoding. Rows:
λ* by kind (Figure 4) and mean similarity by λ (Figure 9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.cid.metric import DATASET, LAMBDA
from countergen_edit.metrics.cid.perturbations import Perturbation, Similarity
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import LEVEL, estimate, resample, weighted_mean
from countergen_edit.models import LanguageModel, contrastive_generate

GRID = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
TAU = 0.85
SECTIONS = 8
"""Values of λ tried at once between two neighbours of the grid."""
KIND = "perturbation"
"""The facet of the kind of perturbation."""


@dataclass(frozen=True)
class Effect:
    """λ* of a perturbation, and its similarity at every λ of the grid."""

    perturbation: Perturbation
    strength: float
    """λ*; infinite where no λ of the grid drives the continuations apart."""
    similarity: tuple[float, ...]


def effects(
    model: LanguageModel,
    pairs: Sequence[Perturbation],
    similarity: Similarity,
    *,
    tau: float = TAU,
    grid: Sequence[float] = GRID,
    tolerance: float = 0.05,
    max_new_tokens: int = 16,
    top_k: int = 50,
) -> list[Effect]:
    """λ* of every perturbation.

    The whole grid is decoded at once. The interval in which similarity first falls below τ is then
    cut into nine, until it is narrow; similarity is a step function of λ and may rise again.

    Args:
        model: The model.
        pairs: The perturbations.
        similarity: Of two texts.
        tau: τ; continuations of a lower similarity count as apart.
        grid: Values of λ, rising, from 0.
        tolerance: Width of the final interval relative to λ*.
        max_new_tokens: Longest continuation, unless its sentence ends before.
        top_k: Number of the likeliest tokens that CID chooses from.

    Raises:
        UserError: there are no perturbations, one changes nothing, or the grid does not rise.
    """
    if not pairs:
        raise UserError("no perturbations were given: list some, or name a source sentence")
    if len(grid) < 2 or grid[0] != 0 or list(grid) != sorted(set(grid)):
        raise UserError(f"the grid of lambda, {list(grid)}, must rise from 0")
    if not -1 < tau <= 1:
        raise UserError(f"tau={tau} is no similarity: give a number up to 1")

    def similar(of: Sequence[tuple[int, float]]) -> Float64[np.ndarray, " decoded"]:
        x = [pairs[i].source for i, _ in of]
        other = [pairs[i].text for i, _ in of]
        texts = contrastive_generate(
            model,
            [*x, *other],
            [*other, *x],
            [strength for _, strength in of] * 2,
            max_new_tokens=max_new_tokens,
            top_k=top_k,
            sentence=True,
            trace=False,
            batch_size=128,
            progress="Searching lambda",
        )
        both = [prompt + c.text for prompt, c in zip([*x, *x], texts, strict=True)]
        return similarity(both[: len(x)], both[len(x) :])

    every = range(len(pairs))
    curves = similar([(i, s) for i in every for s in grid]).reshape(len(pairs), len(grid))
    below, above = np.full(len(pairs), -np.inf), np.full(len(pairs), np.inf)
    for i, curve in enumerate(curves):
        crossed = np.flatnonzero(curve < tau)
        if len(crossed):
            above[i] = grid[crossed[0]]
            below[i] = grid[crossed[0] - 1] if crossed[0] else 0.0
    while open_ := [i for i in every if tolerance * above[i] < above[i] - below[i] < np.inf]:
        cuts = {i: np.linspace(below[i], above[i], SECTIONS + 2)[1:-1] for i in open_}
        refined = similar([(i, s) for i in open_ for s in cuts[i]]).reshape(len(open_), SECTIONS)
        for i, curve in zip(open_, refined, strict=True):
            points = np.array([below[i], *cuts[i], above[i]])
            first = int(np.flatnonzero([*(curve < tau), True])[0]) + 1
            below[i], above[i] = points[first - 1], points[first]
    return [Effect(p, float(above[i]), tuple(map(float, curves[i]))) for i, p in enumerate(pairs)]


def effect_rows(
    effects: Sequence[Effect], grid: Sequence[float], tau: float, seed: int
) -> list[Row]:
    """Rows `cid_lambda_star` (median by kind, strongest kind first) and `cid_similarity` (by λ).

    Intervals resample source sentences, or the perturbations of a single one.
    """
    kinds = dict.fromkeys(e.perturbation.kind for e in effects)
    rows = [_kind_row(kind, effects, grid, tau, seed) for kind in kinds]
    rows.sort(key=lambda row: math.inf if row.value is None else row.value)
    drawn = _clusters(effects)
    weights = resample(int(drawn.max()) + 1, seed, "similarity")
    detail = {"tau": tau, "sources": len({e.perturbation.source for e in effects})}
    about: dict[str, Any] = {"dataset": DATASET, "n": len(effects), "seed": seed, "detail": detail}
    for j, strength in enumerate(grid):
        values = np.array([e.similarity[j] for e in effects])
        mean = estimate(weighted_mean(values, drawn, weights), weights, within=(-1, 1)).columns
        rows.append(Row("cid_similarity", **mean, facets={LAMBDA: strength}, **about))
    return rows


def _kind_row(
    kind: str, effects: Sequence[Effect], grid: Sequence[float], tau: float, seed: int
) -> Row:
    own = sorted((e for e in effects if e.perturbation.kind == kind), key=lambda e: e.strength)
    values = np.array([e.strength for e in own])
    low, median, high = (_finite(quantile(values, q)) for q in (0.25, 0.5, 0.75))
    lo, hi = map(_finite, _interval(values, _clusters(own), seed, kind))
    never = int(np.isinf(values).sum())
    detail: dict[str, Any] = {
        "tau": tau,
        "quartiles": [low, high],
        "interval": [lo, hi],
        "values": [_finite(v) for v in values],
        "perturbations": [[e.perturbation.source, e.perturbation.text] for e in own],
        "never": never,
        "largest": max(grid),
        "sources": len({e.perturbation.source for e in own}),
    }
    if median is None:
        detail["reason"] = f"{never} of {len(values)} stay together up to lambda={max(grid):g}"
    about: dict[str, Any] = {"dataset": DATASET, "n": len(values), "seed": seed, "detail": detail}
    return Row("cid_lambda_star", median, lo=lo, hi=hi, facets={KIND: kind}, **about)


def _clusters(effects: Sequence[Effect]) -> Int[np.ndarray, " effect"]:
    """The resampled unit of each effect."""
    codes, sources = pd.Index([e.perturbation.source for e in effects]).factorize()
    return np.asarray(codes if len(sources) > 1 else np.arange(len(effects)))


def _interval(
    values: Float64[np.ndarray, " effect"], drawn: Int[np.ndarray, " effect"], seed: int, kind: str
) -> tuple[float, float]:
    """The 95 % percentile interval of the median, whose ends are resampled medians.

    Its upper end may be infinite; both ends are NaN for one resampled unit.
    """
    weights = resample(int(drawn.max()) + 1, seed, "lambda_star", kind)[1:, drawn].astype(int)
    if not len(weights):
        return math.nan, math.nan
    medians = np.array([quantile(np.repeat(values, times), 0.5) for times in weights])
    lo, hi = np.quantile(medians, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return float(lo), float(hi)


def quantile(values: Float64[np.ndarray, " value"], q: float) -> float:
    """An interpolated quantile, infinite where a value that it touches is.

    >>> quantile(np.array([1.0, 3.0, math.inf]), 0.5), quantile(np.array([1.0, 4.0]), 0.5)
    (3.0, 2.5)
    >>> quantile(np.array([1.0, math.inf]), 0.5)
    inf
    """
    above = float(np.quantile(values, q, method="higher"))
    if math.isinf(above):
        return above
    finite = np.where(np.isinf(values), above, values)  # beyond the two that are interpolated
    return float(np.quantile(finite, q))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
