"""Variance components of the squared group effect, and the interval that a design leads to.

Of a cell (a template with a content) let g be the unbiased squared group difference. The pilot's g
are analysed as crossed random effects,

    g = G² + template + content + cell + people,

by Henderson's method 1 (Biometrics 9, 1953; Searle, Casella and McCulloch, Variance Components,
1992, section 5.3); the part of people is the sampling variance of d, by the delta method. A design
of K cells over T templates and C contents, with n people of each group in a cell, has

    Var G² = template / T + content / C + (cell + people / n) / K,

the decision study of generalisability theory (Brennan, Generalizability Theory, 2001, chapter 4).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int
from scipy.stats import t as student

from countergen_edit.metrics.r.group_effect import GroupEffect
from countergen_edit.metrics.r.people import numbered
from countergen_edit.metrics.statistics import LEVEL

_Levels = Int[np.ndarray, " cell"]
"""The level of a factor in each cell, from 0."""


@dataclass(frozen=True)
class Components:
    """Variance components of G² in nats⁴, G² and the sampling variance of d in nats²."""

    squared: float
    """At least its standard error: a pilot shows no smaller effect."""
    noise: float
    """Sampling variance of d with one person of each group in a cell."""
    template: float
    content: float
    cell: float
    people: float
    mean: float
    """Mean d² of the pilot, nats²."""

    @classmethod
    def of(cls, effect: GroupEffect) -> Components:
        samples, sample, people = effect.scores.data.samples, effect.scores.sample, effect.people
        outputs, residuals = np.bincount(sample), people.residuals
        g = np.bincount(sample, effect.by_item) / outputs
        v = np.bincount(sample, (residuals**2).sum(axis=0)) / outputs
        shares = np.eye(len(samples))[sample] / outputs[sample][:, None]
        influence = 2 * (residuals * people.difference) @ shares
        sampling = float((influence**2).sum(axis=0).mean())
        frames, contents = (
            numbered([getattr(one, key) for one in samples]) for key in ("frame", "content")
        )
        template, content, residual = henderson(g, frames, contents)
        return cls(
            squared=max(float(g.mean()), float(g.std(ddof=1)) / math.sqrt(len(g))),
            noise=float(v.mean()) * people.fewest,
            template=template,
            content=content,
            cell=max(residual - sampling, 0.0),
            people=min(sampling, max(residual, 0.0)) * people.fewest,
            mean=float(effect.observed.mean()),
        )

    @property
    def relative(self) -> float:
        """Variance between prompts in units of the squared mean d² of the pilot."""
        return (self.template + self.content + self.cell) / self.mean**2 if self.mean > 0 else 0.0

    def variance(self, cells: int, templates: int, contents: int, people: int) -> float:
        """Of the estimate of G², nats⁴."""
        crossed = self.template / min(cells, templates) + self.content / min(cells, contents)
        return crossed + (self.cell + self.people / people) / cells

    def half_width(self, cells: int, templates: int, contents: int, people: int) -> float:
        """Expected half-width of the interval of G, nats: Cox's, of the mean of log-normal d²."""
        clusters = min(cells, contents)
        v = self.noise / people
        m = self.squared + v
        if m <= 0 or clusters < 2:
            return math.inf
        variance = self.variance(cells, templates, contents, people)
        spread = math.log1p(clusters * variance / m**2)
        quantile = float(student.ppf((1 + LEVEL) / 2, clusters - 1))
        reach = quantile * math.sqrt(spread / clusters + spread**2 / (2 * (clusters - 1)))
        lo, hi = (math.sqrt(max(m * math.exp(sign * reach) - v, 0.0)) for sign in (-1, 1))
        return (hi - lo) / 2


def pooled(sets: Mapping[str, Components]) -> dict[str, Components]:
    """Components of several sets, with at least half of the mean relative variance of all.

    The distribution over contents is skewed: a dozen of one set often show too little of it.
    """
    mean = float(np.mean([c.relative for c in sets.values()]))
    shrunk = {}
    for name, c in sets.items():
        lacking = max((mean - c.relative) / 2, 0.0) * c.mean**2
        shrunk[name] = replace(c, content=c.content + lacking)
    return shrunk


def henderson(
    values: Float64[np.ndarray, " cell"], first: _Levels, second: _Levels
) -> tuple[float, float, float]:
    """Variances of two crossed factors and of the residuals; negative ones of factors are 0."""
    count = len(values)
    factors = [np.eye(int(level.max()) + 1)[level] for level in (first, second)]
    corrections = [(x.sum(axis=0) ** 2).sum() / count for x in factors]
    total = float(values.sum() ** 2 / count)
    left, right = [], []
    for x in factors:
        sizes = x.sum(axis=0)
        left.append(float(((values @ x) ** 2 / sizes).sum()) - total)
        raw = [((x.T @ y) ** 2 / sizes[:, None]).sum() for y in factors]
        right.append([*np.subtract(raw, corrections), len(sizes) - 1])
    left.append(float((values**2).sum()) - total)
    right.append([*np.subtract(count, corrections), count - 1])
    a, b, residual = np.linalg.lstsq(np.array(right), np.array(left), rcond=None)[0].tolist()
    return max(a, 0.0), max(b, 0.0), residual
