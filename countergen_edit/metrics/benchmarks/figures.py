"""Benchmark figures in resamples of clusters, their changes, and differences between runs.

P is Student's, of a change over its standard error, with one degree of freedom less than there are
clusters (of several groups, those of the smallest). The smallest detectable change has a power of
80 % at 5 %, two-sided: 2.8 standard errors (Card et al. 2020). Two runs are compared on the items
that both have, with the same number and the same texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float64
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from scipy import stats

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_lines
from countergen_edit.core.writing import digest
from countergen_edit.data.benchmarks import Benchmark, BenchmarkItem, FigureKind, benchmark_named
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, Weights, estimate, resample, share_interval

FigureDraws = Float64[np.ndarray, " resample"]
EVERY_TYPE = "all"
"""The bias type of figures over all of them."""
_LEAST = 0.5
"""Share of items that need to have the count which a figure requires."""
FIGURE_DIFFERENCE = "benchmark_difference"
COUNTED = ".counted.jsonl"
"""Suffix of a file of counts."""


def _mann_whitney(first: Sequence[Any], second: Sequence[Any]) -> Any:
    """Two-sided P that two samples of each item have one distribution."""
    return stats.mannwhitneyu(np.stack(first), np.stack(second)).pvalue


_FUNCTIONS = {"minimum": np.minimum, "where": np.where, "isnan": np.isnan}
_FUNCTIONS |= {"mann_whitney": _mann_whitney}
_KEY = ["id", "part", "digest"]
"""What identifies an item in two runs."""
_compiled = cache(SandboxedEnvironment(undefined=StrictUndefined).compile_expression)


def value_of(formula: str | int, columns: Mapping[str, Any]) -> Any:
    """The value of a formula of arrays, in Jinja's sandbox with some functions of NumPy.

    >>> value_of("minimum(a / b, 1)", {"a": np.array([1.0, 4.0]), "b": 2})
    array([0.5, 1. ])
    """
    try:
        return _compiled(str(formula), undefined_to_none=False)(columns, **_FUNCTIONS)
    except (TemplateError, TypeError) as error:
        raise UserError(f"formula {formula!r} of a benchmark: {error}") from error


def counts_of(
    benchmark: Benchmark, items: Sequence[BenchmarkItem], scores: Sequence[Sequence[float]]
) -> pd.DataFrame:
    """A line for each item, with its counts from the scores of its texts.

    The counts of several sampled texts are added up.
    """
    facts = ["id", "part", "bias_type", "cluster", "group"]
    counted = pd.DataFrame([[vars(i)[fact] for fact in facts] for i in items], columns=facts)
    counted["digest"] = [digest(item.texts) for item in items]
    documents = pd.DataFrame([item.entry for item in items], dtype=object)
    columns = {field: documents[field].to_numpy() for field in documents}
    names = [*benchmark.items.texts]
    others = [f"swapped_{name}" for name in names[: benchmark.swapped]]
    if benchmark.sampling:
        columns["sentiment"] = np.array(scores, dtype=float).T
    else:  # of items without texts about other groups their scores are missing
        each_row = [dict(enumerate(own)) for own in scores]
        values = pd.DataFrame(each_row, columns=range(len(names + others)))
        columns |= dict(zip(names + others, values.to_numpy(np.float64).T, strict=True))
        columns["answer"] = values[range(len(names))].to_numpy(np.float64).argmax(axis=1)
    shape = np.shape(columns["sentiment"]) if benchmark.sampling else (1, len(items))
    for count, formula in benchmark.counts.items():
        each = np.broadcast_to(value_of(formula, columns), shape)
        counted[count] = each.astype(float).sum(axis=0)
    return counted


@dataclass(frozen=True)
class BenchmarkFigure:
    """A figure of some items, in resamples of their clusters.

    `draws` begins with the figure itself; `weights` are per group where groups are drawn apart;
    `pooled` weighs every item alike where clusters have equal weight.
    """

    benchmark: str
    kind: FigureKind
    part: str
    bias_type: str
    draws: FigureDraws
    weights: tuple[Weights, ...]
    items: int
    pooled: float | None

    @property
    def clusters(self) -> int:
        return sum(int(weights.shape[1]) for weights in self.weights)

    @property
    def estimate(self) -> Estimate:
        within = (-1.0 if self.kind.signed else 0.0, 1.0)
        return estimate(self.draws, *self.weights, within=within, whole=float(not self.kind.signed))

    def less(self, other: FigureDraws | float) -> tuple[Estimate, float | None]:
        """The figure less a value, or less other draws on the same resamples, with its P.

        P is two-sided, None where undefined, and that of equal signs where clusters all differ
        alike. Where none differs, the interval is as wide as the share that may, by Clopper and
        Pearson, times the range of the figure.
        """
        found = estimate(self.draws - other, *self.weights)
        fewest = min(int(weights.shape[1]) for weights in self.weights)
        if not (math.isfinite(found.standard_error) and math.isfinite(found.value)):
            return found, None
        if found.standard_error == 0 and found.value == 0:
            most = share_interval(0, fewest)[1] * (2.0 if self.kind.signed else 1.0)
            return replace(found, lo=-most, hi=most), 1.0
        if found.standard_error == 0:
            return found, 2.0 ** (1 - fewest)
        return found, found.p_of_none(fewest)

    def row(self, metric: str, seed: int, of: Estimate, **detail: Any) -> Row:
        kind = self.kind
        about: dict[str, Any] = {"title": kind.title, "fair": kind.fair, "signed": kind.signed}
        about["clusters"] = self.clusters
        about |= {"undirected": True} if kind.undirected else {}
        about |= {"counterfactual": kind.counterfactual} if kind.counterfactual else {}
        part = {"part": self.part} if self.part else {}
        facets = {"figure": kind.name, **part, "bias_type": self.bias_type}
        columns: dict[str, Any] = {"facets": {"benchmark": self.benchmark, **facets}}
        columns |= {"dataset": self.benchmark, "split": "test", "n": self.items, "seed": seed}
        return Row(metric, **of.columns, **columns, detail=about | detail)


def figures_of_counts(
    benchmark: Benchmark, counts: pd.DataFrame, seed: int
) -> list[BenchmarkFigure]:
    """Every figure of every part and bias type, and of all bias types together."""
    found, types = list[BenchmarkFigure](), [*counts["bias_type"].unique()]
    for part, of_part in counts.groupby("part", sort=False):
        for bias_type in [*types, *([EVERY_TYPE] if len(types) > 1 else [])]:
            own = of_part if bias_type == EVERY_TYPE else of_part[of_part["bias_type"] == bias_type]
            for kind in benchmark.kinds_of(part):
                # Figures of some groups or items are about one bias type alone.
                if bias_type == EVERY_TYPE and (kind.groups or kind.requires):
                    continue
                if {*kind.groups} <= {*own["group"]}:
                    about = own[own["group"].isin(kind.groups)] if kind.groups else own
                    have = about[about[kind.requires] > 0] if kind.requires else about
                    if len(have) and len(have) >= _LEAST * len(about):
                        found.append(_figure(benchmark, kind, part, bias_type, have, seed))
    return found


def _figure(
    benchmark: Benchmark,
    kind: FigureKind,
    part: str,
    bias_type: str,
    items: pd.DataFrame,
    seed: int,
) -> BenchmarkFigure:
    """A figure of some items; part, bias type and group name the draws of clusters."""
    values, weights = list[FigureDraws](), list[Weights]()
    pooled: float | None = None
    with np.errstate(invalid="ignore", divide="ignore"):  # undefined in some resamples
        for group in kind.groups or ("",):
            own = items[items["group"] == group] if group else items
            cluster, names = pd.factorize(own["cluster"])
            unit = ("benchmark", benchmark.name, part, bias_type, *filter(None, [group]))
            weights.append(resample(len(names), seed, *unit))
            size = np.bincount(cluster) if benchmark.equal_clusters else 1
            totals = {c: np.bincount(cluster, weights=own[c]) / size for c in benchmark.counts}
            sums = {count: weights[-1] @ total for count, total in totals.items()}
            values.append(value_of(kind.formula, sums))
        if benchmark.equal_clusters:
            every = value_of(kind.formula, {c: items[c].to_numpy().sum() for c in benchmark.counts})
            pooled = float(every) if math.isfinite(every) else None
    alone = any(len(drawn) == 1 for drawn in weights)  # one cluster has no spread
    draws = np.asarray(values[0] - values[1] if values[1:] else values[0])[: 1 if alone else None]
    drawn = (draws, tuple(weights), len(items), pooled)
    return BenchmarkFigure(benchmark.name, kind, part, bias_type, *drawn)


def read_counts(path: Path) -> pd.DataFrame:
    """Counts kept by a run; `UserError` for a damaged file."""
    return pd.DataFrame([line for _, line in json_lines(path)])


def difference_rows(
    name: str,
    before: pd.DataFrame,
    after: pd.DataFrame,
    seed: int,
    detail: Mapping[str, Any],
    edit: str,
) -> list[Row]:
    """Every figure in `after` less in `before`; none without shared items."""
    benchmark, either = benchmark_named(name), pd.concat([before, after]).drop_duplicates(_KEY)
    shared = before[_KEY].merge(after[_KEY])
    sides = (figures_of_counts(benchmark, shared.merge(side), seed) for side in (before, after))
    rows = []
    for one, two in zip(*sides, strict=True):
        found, p = two.less(one.draws)
        is_of_type = (either["bias_type"] == one.bias_type) | (one.bias_type == EVERY_TYPE)
        count = int((is_of_type & (either["part"] == one.part)).sum())
        about = ", ".join(filter(None, (one.part, one.bias_type))).replace("_", " ")
        row = one.row(FIGURE_DIFFERENCE, seed, found)
        del row.facets["benchmark"]
        own = {
            "about": f"{benchmark.source.title} ({about})",
            "of": one.kind.title,
            "percent": True,
            "before": one.estimate.columns["value"],
            "after": two.estimate.columns["value"],
            "p": p,
            "method": "drawn over clusters, the same in both",
            "smallest": found.smallest,
            "clusters": one.clusters,
            "samples": one.items,
            "samples_of_either": count,
            "samples_of_one": count - one.items,
        }
        rows.append(replace(row, edit=edit, detail={**detail, **own}))
    return rows
