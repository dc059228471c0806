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
from countergen_edit.metrics.statistics import LEVEL, Clusters, finite
from countergen_edit.models import LanguageModel, contrastive_generate

_GRID = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
TAU = 0.85
SECTIONS = 8
"""Values of λ tried at once between two neighbours of the grid."""
_KIND = "perturbation"
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
    grid: Sequence[float] = _GRID,
    tolerance: float = 0.05,
    max_new_tokens: int = 16,
    top_k: int = 50,
) -> list[Effect]:
    """λ* of every perturbation.

    The whole grid is decoded at once. The interval in which similarity first falls below τ is then
    cut into nine, until it is narrow relative to λ* (`tolerance`); similarity is a step function of
    λ and may rise again. `UserError` if there are no perturbations, one changes nothing, or the
    grid does not rise from 0.
    """
    if not pairs:
        raise UserError("no perturbations were given: list some, or name a source sentence")
    if len(grid) < 2 or grid[0] != 0 or list(grid) != sorted(set(grid)):
        raise UserError(f"the grid of lambda, {list(grid)}, must rise from 0")
    if not -1 < tau <= 1:
        raise UserError(f"tau={tau} is not a similarity: give a number up to 1")

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


def perturbation_rows(
    effects: Sequence[Effect], grid: Sequence[float], tau: float, seed: int
) -> list[Row]:
    """Rows `cid_lambda_star` (median by kind, strongest kind first) and `cid_similarity` (by λ).

    Intervals resample source sentences, or the perturbations of a single one.
    """
    kinds = dict.fromkeys(e.perturbation.kind for e in effects)
    rows = [_kind_row(kind, effects, grid, tau, seed) for kind in kinds]
    rows.sort(key=lambda row: math.inf if row.value is None else row.value)
    drawn = Clusters(seed, {("similarity",): _cluster(effects)})
    detail = {"tau": tau, "sources": len({e.perturbation.source for e in effects})}
    about: dict[str, Any] = {"dataset": DATASET, "n": len(effects), "seed": seed, "detail": detail}
    for j, strength in enumerate(grid):
        values = np.array([e.similarity[j] for e in effects])
        mean = drawn.estimate(drawn.mean(values), within=(-1, 1))
        rows.append(Row.of("cid_similarity", mean, facets={LAMBDA: strength}, **about))
    return rows


def _kind_row(
    kind: str, effects: Sequence[Effect], grid: Sequence[float], tau: float, seed: int
) -> Row:
    own = sorted((e for e in effects if e.perturbation.kind == kind), key=lambda e: e.strength)
    values = np.array([e.strength for e in own])
    low, median, high = (finite(quantile(values, q)) for q in (0.25, 0.5, 0.75))
    # The 95 % percentile interval of the median: its ends are resampled medians, the upper at times
    # infinite; one resampled unit has none.
    drawn = Clusters(seed, {("lambda_star", kind): _cluster(own)}).of_units[1:].astype(int)
    medians = [quantile(np.repeat(values, times), 0.5) for times in drawn] or [math.nan]
    ends = np.quantile(medians, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    lo, hi = map(finite, ends.tolist())
    never = int(np.isinf(values).sum())
    detail: dict[str, Any] = {
        "tau": tau,
        "quartiles": [low, high],
        "interval": [lo, hi],
        "values": [finite(v) for v in values],
        "perturbations": [[e.perturbation.source, e.perturbation.text] for e in own],
        "never": never,
        "largest": max(grid),
        "sources": len({e.perturbation.source for e in own}),
    }
    if median is None:
        detail["reason"] = f"{never} of {len(values)} stay together up to lambda={max(grid):g}"
    about: dict[str, Any] = {"dataset": DATASET, "n": len(values), "seed": seed, "detail": detail}
    return Row("cid_lambda_star", median, lo=lo, hi=hi, facets={_KIND: kind}, **about)


def _cluster(effects: Sequence[Effect]) -> Int[np.ndarray, " effect"]:
    """The source sentence of each effect; of a single one, its perturbation."""
    codes, sources = pd.Index([e.perturbation.source for e in effects]).factorize()
    return np.asarray(codes if len(sources) > 1 else np.arange(len(effects)))


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
