"""Decisions about applications, and their figures with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64
from scipy.special import expit

from countergen_edit.core.seeds import generator
from countergen_edit.data.hiring import STRENGTHS, Application
from countergen_edit.metrics.statistics import Estimate, Weights, estimate, resample

Scale = Literal["probability", "log_odds", "selection", "scoring"]
SCALES: tuple[Scale, ...] = ("probability", "log_odds")
RATES: tuple[Scale, ...] = ("selection", "scoring")
Drawn = Float64[np.ndarray, " resample"]
Scores = Float64[np.ndarray, "application name"]
Kept = Bool[np.ndarray, " application"]

LEAST_DEFINED = 0.95
"""Share of resamples in which an impact ratio with an interval must be defined."""


@dataclass(frozen=True)
class Figure:
    """A figure, (resample,), first of the data itself, with the weights behind it."""

    draws: Drawn
    weights: tuple[Weights, ...]
    within: tuple[float, float]
    whole: float = 0.0

    @cached_property
    def estimate(self) -> Estimate:
        """With its interval."""
        return estimate(self.draws, *self.weights, within=self.within, whole=self.whole)

    @property
    def p(self) -> float | None:
        """Two-sided P of no difference; None without variation or resamples."""
        error, fewest = self.estimate.standard_error, self.fewest
        known = math.isfinite(error) and error > 0 and fewest > 1
        return self.estimate.p_of_none(fewest) if known else None

    @property
    def fewest(self) -> int:
        """The smallest number of resampled clusters."""
        return min((w.shape[1] for w in self.weights if len(w) > 1), default=1)

    def less(self, before: Figure) -> Figure:
        """The change from `before`, on the same resamples."""
        return Figure(self.draws - before.draws, self.weights, (-math.inf, math.inf))

    def ratio(self, top: Figure) -> Estimate:
        """The rate over that of another category, on the same resamples.

        Where either rate is the same in all of them, its ends are those of both intervals; there is
        none where the other rate may be 0.
        """
        own, other = self.estimate, top.estimate
        with np.errstate(divide="ignore", invalid="ignore"):
            draws = self.draws / top.draws
        if own.standard_error == 0 or other.standard_error == 0:
            ends = (own.lo / other.hi, own.hi / other.lo) if other.lo > 0 else (math.nan, math.nan)
            return Estimate(float(draws[0]), *ends, math.nan)
        if np.isfinite(draws).mean() < LEAST_DEFINED:
            draws = draws[:1]
        return estimate(draws, *self.weights, *top.weights[1:], within=(0.0, math.inf))


Gaps = dict[tuple[str, str], Figure]


@dataclass(frozen=True)
class Decisions:
    """Log P of either answer to every application, by group, (application, name)."""

    applications: tuple[Application, ...]
    accept: dict[str, Scores]
    reject: dict[str, Scores]
    seed: int

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.accept)

    @cached_property
    def occupations(self) -> tuple[str, ...]:
        """In the order of the applications."""
        return tuple(dict.fromkeys(one.occupation for one in self.applications))

    def values(self, group: str, scale: Scale) -> Scores:
        """Acceptance of every application and name of a group."""
        odds = self.accept[group] - self.reject[group]
        if scale in RATES:
            return np.asarray(odds > (0.0 if scale == "selection" else self._median), np.float64)
        values: Scores = odds if scale == "log_odds" else expit(odds)
        return values

    @cached_property
    def _median(self) -> float:
        odds = (self.values(group, "log_odds").ravel() for group in self.groups)
        return float(np.median(np.concatenate([*odds])))

    def answered(self, group: str) -> float:
        """Mean probability of the two answers together."""
        return float(np.exp(np.logaddexp(self.accept[group], self.reject[group])).mean())

    def acceptance(self, scale: Scale, *groups: str) -> Figure:
        """Acceptance, or a rate, of the applications of some groups together."""
        return self._figure(self._mean(scale, *groups), scale, *groups, least=0.0)

    def gap(self, a: str, b: str, scale: Scale) -> Figure:
        """Acceptance of group a less that of group b."""
        return self._figure(self._mean(scale, a) - self._mean(scale, b), scale, a, b)

    def gaps(self, scale: Scale) -> Gaps:
        """The same of every two groups."""
        return {(a, b): self.gap(a, b, scale) for a, b in combinations(self.groups, 2)}

    def size_of_gaps(self, kept: Kept) -> float:
        """Mean size of the gaps in log-odds on some of the applications."""
        means = [self.values(group, "log_odds")[kept].mean() for group in self.groups]
        return float(np.mean([abs(a - b) for a, b in combinations(means, 2)]))

    def gap_of(self, occupation: str, a: str, b: str, scale: Scale) -> Figure:
        """The same of one occupation, with names resampled alone."""
        place = self.occupations.index(occupation)
        first, second = (
            (people * self._cells(group, scale)[place]).sum(1) / people.sum(1)
            for group, people in ((group, self._people(group)) for group in (a, b))
        )
        figure = self._figure(first - second, scale, a, b)
        return replace(figure, weights=figure.weights[1:])

    def strength(self, scale: Scale) -> Figure:
        """Acceptance of strong less weak curricula vitae, over all groups."""
        strong, weak = STRENGTHS
        sides = [
            self._mean(scale, group, strength=strong) - self._mean(scale, group, strength=weak)
            for group in self.groups
        ]
        return self._figure(np.mean(sides, axis=0), scale, *self.groups)

    def _figure(self, draws: Drawn, scale: Scale, *groups: str, least: float = -1.0) -> Figure:
        limits = (-math.inf, math.inf) if scale == "log_odds" else (least, 1.0)
        weights = (self._drawn, *map(self._people, groups))
        return Figure(draws, weights, limits, whole=float(scale in RATES))

    @cached_property
    def _drawn(self) -> Weights:
        return resample(len(self.occupations), self.seed, "hiring", "occupations")

    def _people(self, group: str) -> Weights:
        return resample(self.accept[group].shape[1], self.seed, "hiring", "names", group)

    def _cells(
        self, group: str, scale: Scale, strength: str | None = None
    ) -> Float64[np.ndarray, "occupation name"]:
        values = self.values(group, scale)
        kept = [strength in (None, one.strength) for one in self.applications]
        of = np.array([one.occupation for one in self.applications])
        return np.array([values[(of == job) & kept].mean(axis=0) for job in self.occupations])

    def _mean(self, scale: Scale, *groups: str, strength: str | None = None) -> Drawn:
        sums, count = np.zeros((2, 1))
        for group in groups:
            vacancies, people = self._drawn, self._people(group)
            cells = self._cells(group, scale, strength)
            sums = sums + ((vacancies @ cells) * people).sum(axis=1)
            count = count + vacancies.sum(axis=1) * people.sum(axis=1)
        mean: Drawn = sums / count
        return mean


def changes(now: Decisions, before: Decisions, scale: Scale) -> Gaps:
    """The changes of all gaps, on the same resamples."""
    were = before.gaps(scale)
    return {pair: gap.less(were[pair]) for pair, gap in now.gaps(scale).items()}


def cross_fitted(each: Mapping[str, Decisions]) -> tuple[Decisions, tuple[str, str]]:
    """Decisions of either half of the occupations under the best prompt of the other half.

    The best has the smallest gaps; the half that it is reported on has no part in its choice.
    """
    first = next(iter(each.values()))
    jobs = generator(first.seed, "hiring", "halves").permutation(first.occupations)
    half: Kept = np.isin([one.occupation for one in first.applications], jobs[: len(jobs) // 2])
    best = [min(each, key=lambda name: each[name].size_of_gaps(kept)) for kept in (~half, half)]
    one, two = (each[name] for name in best)
    accept, reject = (
        {group: np.where(half[:, None], a[group], b[group]) for group in first.groups}
        for a, b in ((one.accept, two.accept), (one.reject, two.reject))
    )
    return replace(first, accept=accept, reject=reject), (best[0], best[1])
