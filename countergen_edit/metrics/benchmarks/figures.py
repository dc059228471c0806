"""From what was counted to figures: drawn over clusters, and the same draws before and after.

Comes in: items of a benchmark and what was counted of each. Goes out: every figure of every part
and bias type, in resamples of its clusters; and what an edit changed of it, with its interval, P
and the smallest change that such data would find.

P is Student's, of the change over its standard error, with as many degrees of freedom as the
interval has: one less than there are clusters. Of a figure of several groups each is drawn apart,
and P has those of the smallest, fewer than its interval by Satterthwaite's rule. A true change as
large as `smallest` is found 80 % of the time by a two-sided test at 5 %: 2.8 standard errors of the
paired change (Card et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from countergen_edit.metrics.benchmarks.base import ALL, Benchmark, Counts, Drawn, FigureKind
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.metrics.statistics import Estimate, Weights, estimate, resample

LEAST = 0.5
"""Share of items that need to have what a figure needs, which is of other items otherwise."""


@dataclass(frozen=True)
class Measured:
    """A figure of some items, and of resamples of their clusters."""

    kind: FigureKind
    part: str
    bias_type: str
    draws: Drawn
    """The figure itself, then in every resample."""
    weights: tuple[Weights, ...]
    """Behind the draws, of each group apart where it is of groups."""
    items: int
    pooled: float | None
    """With every item counting alike, where clusters do."""

    @property
    def clusters(self) -> int:
        """How many are drawn."""
        return sum(int(weights.shape[1]) for weights in self.weights)

    @property
    def fewest(self) -> int:
        """Of groups that are drawn apart those of the smallest, else all."""
        return min(int(weights.shape[1]) for weights in self.weights)

    @property
    def estimate(self) -> Estimate:
        """The figure with its interval."""
        return estimate(self.draws, *self.weights, within=self.kind.within)


@dataclass(frozen=True)
class Change:
    """What a figure changed by."""

    estimate: Estimate
    p: float | None
    """Two-sided; None where there are not two clusters, or one of the two is undefined."""


def change(before: Measured, after: Measured) -> Change:
    """After less before, on the same resamples.

    Where every cluster changed by the same, no draw says how much chance can do: P is then that of
    so many signs that all agree.
    """
    of = estimate(after.draws - before.draws, *after.weights)
    return Change(of, _p_of_none(of, after.fewest))


def p_fair(one: Measured) -> float | None:
    """P of a fair model, of a figure that has a fair value; two-sided, None as of a change."""
    assert one.kind.fair is not None, one.kind.name
    return _p_of_none(estimate(one.draws - one.kind.fair, *one.weights), one.fewest)


def _p_of_none(of: Estimate, clusters: int) -> float | None:
    error = of.standard_error
    if not (math.isfinite(error) and math.isfinite(of.value)):
        return None
    if error == 0:
        return 1.0 if of.value == 0 else 2.0 ** (1 - clusters)
    return of.p_of_none(clusters)


def measured(
    benchmark: Benchmark, items: Sequence[Item], counts: Counts, seed: int
) -> list[Measured]:
    """Every figure of every part: of each bias type, and where there are several, of all."""
    found = []
    types = list(dict.fromkeys(item.bias_type for item in items))
    for part in dict.fromkeys(item.part for item in items):
        of_part = np.array([item.part == part for item in items])
        for bias_type in [*types, *([ALL] if len(types) > 1 else [])]:
            own = np.array([bias_type in (ALL, item.bias_type) for item in items]) & of_part
            of = {item.group for item, counted in zip(items, own, strict=True) if counted}
            kinds: dict[tuple[tuple[str, ...], str], list[FigureKind]] = {}
            for kind in benchmark.figures_of(part):
                # Over all bias types there is nothing more to say of what is about one of them.
                is_of_one = bool(kind.groups or kind.needs)
                if of and of.issuperset(kind.groups) and not (is_of_one and bias_type == ALL):
                    kinds.setdefault((kind.groups, kind.needs), []).append(kind)
            for (groups, needs), own_kinds in kinds.items():
                about = whole = own & np.array([not groups or i.group in groups for i in items])
                if needs:
                    # What an older run kept lacks counts that are new.
                    about = whole & (counts.get(needs, np.zeros(len(items))) > 0)
                if about.sum() >= LEAST * whole.sum():
                    unit = (part, bias_type, *groups)
                    found += _measured(benchmark, own_kinds, items, counts, about, unit, seed)
    return found


def _measured(
    benchmark: Benchmark,
    kinds: Sequence[FigureKind],
    items: Sequence[Item],
    counts: Counts,
    own: Bool[np.ndarray, " item"],
    unit: tuple[str, ...],
    seed: int,
) -> list[Measured]:
    """Some figures of some items; the unit names their draws: part, bias type and groups."""
    part, bias_type, *groups = unit
    sums: dict[str, Drawn] = dict.fromkeys(counts, np.zeros(1))
    pooled = {key: np.array([values[own].sum()]) for key, values in counts.items()}
    weights = []
    for group in groups or [""]:
        of_group = own & np.array([not group or item.group == group for item in items])
        names = [item.cluster for item, counted in zip(items, of_group, strict=True) if counted]
        index = {name: k for k, name in enumerate(dict.fromkeys(names))}
        cluster = np.array([index[name] for name in names])
        sizes = np.bincount(cluster)
        about = (part, bias_type, *([group] if group else []))
        weights.append(resample(len(index), seed, "benchmark", benchmark.name, *about))
        for key, values in counts.items():
            total = np.bincount(cluster, weights=values[of_group])
            each = total / sizes if benchmark.alike else total
            sums[key] = sums[key] + weights[-1] @ each
    alone = any(len(drawn) == 1 for drawn in weights)  # one cluster says nothing of its spread
    found = []
    for kind in kinds:
        with np.errstate(invalid="ignore", divide="ignore"):  # undefined in some resamples
            draws, one = kind.of(sums)[: 1 if alone else None], float(kind.of(pooled)[0])
        alike = one if benchmark.alike and math.isfinite(one) else None
        found.append(Measured(kind, part, bias_type, draws, tuple(weights), int(own.sum()), alike))
    return found
