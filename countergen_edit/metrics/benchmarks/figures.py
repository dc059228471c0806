"""Benchmark figures in resamples of clusters, their changes, and differences between runs.

P is Student's, of a change over its standard error, with one degree of freedom less than there are
clusters (of several groups, those of the smallest). The smallest detectable change has a power of
80 % at 5 %, two-sided: 2.8 standard errors (Card et al. 2020). Two runs are compared on the items
that both have, with the same number and the same texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from countergen_edit.core.reading import json_lines
from countergen_edit.core.writing import digest, write_json_lines
from countergen_edit.metrics.benchmarks.base import (
    ALL,
    BENCHMARKS,
    Benchmark,
    Counts,
    Drawn,
    FigureKind,
    stacked,
)
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, Weights, estimate, resample

LEAST = 0.5
"""Share of items that need to have the count which a figure requires."""
DIFFERENCE = "benchmark_difference"
COUNTED = ".counted.jsonl"
"""Suffix of a file of counts."""
METHOD = "drawn over clusters, the same in both"
AnyBenchmark = Benchmark | type[Benchmark]
_ABOUT = [field.name for field in fields(Item) if field.name not in ("texts", "entry")]


class Difference(NamedTuple):
    """A difference with its two-sided P, None where undefined."""

    estimate: Estimate
    p: float | None


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

    def less(self, other: Drawn | float) -> Difference:
        """The figure less a value, or less other draws on the same resamples.

        Where clusters all differ alike, P is that of equal signs.
        """
        found = estimate(self.draws - other, *self.weights)
        fewest = min(int(weights.shape[1]) for weights in self.weights)
        if not (math.isfinite(found.standard_error) and math.isfinite(found.value)):
            return Difference(found, None)
        if found.standard_error == 0:
            return Difference(found, 1.0 if found.value == 0 else 2.0 ** (1 - fewest))
        return Difference(found, found.p_of_none(fewest))

    def row(self, metric: str, benchmark: str, seed: int, of: Estimate) -> Row:
        """A row of an estimate of the figure, or of its change."""
        kind = self.kind
        detail: dict[str, Any] = {"title": kind.title, "fair": kind.fair, "signed": kind.signed}
        detail["clusters"] = self.clusters
        if kind.undirected:
            detail["undirected"] = True
        if kind.counterfactual:
            detail["counterfactual"] = kind.counterfactual
        about: dict[str, Any] = {"dataset": benchmark, "split": "test", "n": self.items}
        about["facets"] = {"benchmark": benchmark, **self.facets}
        return Row(metric, **of.columns, **about, seed=seed, detail=detail)


def figures_of_counts(
    benchmark: AnyBenchmark, items: Sequence[Item], counts: Counts, seed: int
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
                    found.append(_figure(benchmark, kind, bias_type, some, of_some, seed))
    return found


def _figure(
    benchmark: AnyBenchmark,
    kind: FigureKind,
    bias_type: str,
    items: Sequence[Item],
    counts: Counts,
    seed: int,
) -> Figure:
    """A figure of items of one part; part, bias type and group name the draws of clusters."""
    part = items[0].part
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
    about = {"benchmark": benchmark, "title": title, "normalise": normalise}
    write_json_lines(path, [about, *lines])


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
    items, benchmark = [before.items[key] for key in shared], BENCHMARKS.get(before.benchmark)
    sides = [
        figures_of_counts(benchmark, items, stacked([side.counts[key] for key in shared]), seed)
        for side in (before, after)
    ]
    either = {**before.items, **after.items}.values()
    rows = []
    for one, two in zip(*sides, strict=True):
        found = two.less(one.draws)
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
        row = one.row(DIFFERENCE, before.benchmark, seed, found.estimate)
        columns |= {"facets": one.facets, "detail": {**detail, **about_both}}
        rows.append(replace(row, **columns))
    return rows
