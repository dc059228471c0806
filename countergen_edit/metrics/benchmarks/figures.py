"""Benchmark figures in resamples of clusters, their changes, and differences between runs.

P is Student's, of a change over its standard error, with one degree of freedom less than there are
clusters (of several groups, those of the smallest). The smallest detectable change has a power of
80 % at 5 %, two-sided: 2.8 standard errors (Card et al. 2020). Two runs are compared on the items
that both have, with the same number and the same texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from countergen_edit.core.reading import json_lines
from countergen_edit.core.writing import digest
from countergen_edit.data.benchmarks import Files, Source
from countergen_edit.metrics.benchmarks.base import (
    ALL,
    BENCHMARKS,
    Benchmark,
    Counts,
    Drawn,
    FigureKind,
)
from countergen_edit.metrics.benchmarks.items import Item, write_lines
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, Weights, estimate, resample

LEAST = 0.5
"""Share of items that need to have the count which a figure requires."""
DIFFERENCE = "benchmark_difference"
COUNTED = ".counted.jsonl"
"""Suffix of a file of counts."""
METHOD = "drawn over clusters, the same in both"
_ABOUT = [field.name for field in fields(Item) if field.name not in ("texts", "entry")]


@dataclass(frozen=True)
class Figure:
    """A figure of some items, in resamples of their clusters.

    `draws` begins with the figure itself; `weights` are per group where groups are drawn apart;
    `pooled` weighs every item alike where clusters have equal weight.
    """

    kind: FigureKind
    part: str
    bias_type: str
    draws: Drawn
    weights: tuple[Weights, ...]
    items: int
    pooled: float | None

    @property
    def clusters(self) -> int:
        return sum(int(weights.shape[1]) for weights in self.weights)

    @property
    def estimate(self) -> Estimate:
        within = self.kind.within
        return estimate(self.draws, *self.weights, within=within, whole=float(within[0] == 0))

    @property
    def facets(self) -> dict[str, str | float]:
        part = {"part": self.part} if self.part else {}
        return {"figure": self.kind.name, **part, "bias_type": self.bias_type}

    def p_of_none(self, of: Estimate) -> float | None:
        """Two-sided P of no difference; of clusters that all differ alike, that of equal signs."""
        fewest = min(int(weights.shape[1]) for weights in self.weights)
        error = of.standard_error
        if not (math.isfinite(error) and math.isfinite(of.value)):
            return None
        if error == 0:
            return 1.0 if of.value == 0 else 2.0 ** (1 - fewest)
        return of.p_of_none(fewest)


@dataclass(frozen=True)
class Change:
    """The change of a figure; P is two-sided, None where undefined."""

    estimate: Estimate
    p: float | None


def change(before: Figure, after: Figure) -> Change:
    """After less before, on the same resamples."""
    difference = estimate(after.draws - before.draws, *after.weights)
    return Change(difference, after.p_of_none(difference))


def p_fair(figure: Figure) -> float | None:
    """Two-sided P of a fair model; None as of a change."""
    assert figure.kind.fair is not None, figure.kind.name
    return figure.p_of_none(estimate(figure.draws - figure.kind.fair, *figure.weights))


def figures_of_counts(
    benchmark: Benchmark, items: Sequence[Item], counts: Counts, seed: int
) -> list[Figure]:
    """Every figure of every part and bias type, and of all bias types together."""
    found = []
    types = list(dict.fromkeys(item.bias_type for item in items))
    for part in dict.fromkeys(item.part for item in items):
        of_part = [i for i, item in enumerate(items) if item.part == part]
        for bias_type in [*types, *([ALL] if len(types) > 1 else [])]:
            own = [i for i in of_part if bias_type in (ALL, items[i].bias_type)]
            present = {items[i].group for i in own}
            for kind in benchmark.figures_of(part):
                # Figures of some groups or items are about one bias type alone.
                is_of_one = bool(kind.groups or kind.requires)
                if not present >= {*kind.groups} or (is_of_one and bias_type == ALL):
                    continue
                about = [i for i in own if not kind.groups or items[i].group in kind.groups]
                have = [i for i in about if not kind.requires or counts[kind.requires][i] > 0]
                if have and len(have) >= LEAST * len(about):
                    some = [items[i] for i in have]
                    of_some = {key: values[have] for key, values in counts.items()}
                    found.append(_figure(benchmark, kind, some, of_some, part, bias_type, seed))
    return found


def _figure(
    benchmark: Benchmark,
    kind: FigureKind,
    items: Sequence[Item],
    counts: Counts,
    part: str,
    bias_type: str,
    seed: int,
) -> Figure:
    """A figure of all items; part, bias type and group name the draws of clusters."""
    sums: dict[str, Drawn] = dict.fromkeys(counts, np.zeros(1))
    weights: tuple[Weights, ...] = ()
    for group in kind.groups or ("",):
        own = [i for i, item in enumerate(items) if not group or item.group == group]
        cluster, names = pd.factorize(np.array([items[i].cluster for i in own], dtype=object))
        about = (part, bias_type, *([group] if group else []))
        weights += (resample(len(names), seed, "benchmark", benchmark.name, *about),)
        for key, values in counts.items():
            total = np.bincount(cluster, weights=values[own])
            each = total / np.bincount(cluster) if benchmark.equal_clusters else total
            sums[key] = sums[key] + weights[-1] @ each
    alone = any(len(drawn) == 1 for drawn in weights)  # one cluster has no spread
    with np.errstate(invalid="ignore", divide="ignore"):  # undefined in some resamples
        draws = kind.compute(sums)[: 1 if alone else None]
        pooled = float(kind.compute({k: np.array([v.sum()]) for k, v in counts.items()})[0])
    alike = pooled if benchmark.equal_clusters and math.isfinite(pooled) else None
    return Figure(kind, part, bias_type, draws, weights, len(items), alike)


@dataclass(frozen=True)
class Counted:
    """Counts by item of a benchmark in one run, under one edit."""

    benchmark: str
    title: str
    normalise: str
    items: Mapping[str, Item]
    counts: Mapping[str, Mapping[str, float]]


def keep(
    path: Path, benchmark: str, title: str, normalise: str, items: Sequence[Item], counts: Counts
) -> None:
    """Write the counts of each item."""
    lines: list[dict[str, Any]] = [
        {name: getattr(item, name) for name in _ABOUT}
        | {"texts": digest(item.texts)}
        | {"counts": {key: float(values[i]) for key, values in counts.items()}}
        for i, item in enumerate(items)
    ]
    write_lines(path, [{"benchmark": benchmark, "title": title, "normalise": normalise}, *lines])


def read(path: Path) -> Counted:
    """Counts kept by a run; `UserError` for a damaged file."""
    (_, header), *lines = json_lines(path)
    items, counts = {}, {}
    for _, line in lines:
        item = Item(texts=(), **{name: line[name] for name in _ABOUT})
        key = f"{item.part} {item.id} {line['texts']}"
        items[key], counts[key] = item, line["counts"]
    return Counted(header["benchmark"], header["title"], header["normalise"], items, counts)


def difference_rows(
    before: Counted, after: Counted, seed: int, detail: Mapping[str, Any], **columns: Any
) -> list[Row]:
    """Every figure in `after` less in `before`; none without shared items."""
    shared = [key for key in before.items if key in after.items]
    if not shared:
        return []
    items = [before.items[key] for key in shared]
    # Figures are functions of counts: no file is read for them.
    files = Files(Source(before.title, "", "", "", {}), Path())
    benchmark = BENCHMARKS.get(before.benchmark)(files)
    sides = [
        figures_of_counts(benchmark, items, _arrays(side, shared), seed) for side in (before, after)
    ]
    either = [*{**before.items, **after.items}.values()]
    rows = []
    for one, two in zip(*sides, strict=True):
        found = change(one, two)
        own = [i for i in either if i.part == one.part and one.bias_type in (i.bias_type, ALL)]
        about = ", ".join(filter(None, (one.part, one.bias_type))).replace("_", " ")
        about_both = {
            "about": f"{before.title} ({about})",
            "of": one.kind.title,
            "percent": True,
            "before": one.estimate.columns["value"],
            "after": two.estimate.columns["value"],
            "p": found.p,
            "method": METHOD,
            "smallest": found.estimate.smallest,
            "clusters": one.clusters,
            "samples": one.items,
            "samples_of_either": len(own),
            "samples_of_one": len(own) - one.items,
        }
        rows.append(
            Row(
                DIFFERENCE,
                **found.estimate.columns,
                dataset=before.benchmark,
                facets=one.facets,
                split="test",
                n=one.items,
                seed=seed,
                detail={**detail, **about_both},
                **columns,
            )
        )
    return rows


def _arrays(side: Counted, keys: Sequence[str]) -> Counts:
    own = [side.counts[key] for key in keys]
    return {name: np.array([each[name] for each in own], dtype=np.float64) for name in own[0]}
