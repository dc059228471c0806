"""Decisions about cases that differ in the person alone, and their figures with intervals.

With y and n the log P of either answer to case a about person n of group g,

    odds(a, g, n) = y - n        acceptance(a, g, n) = 1 / (1 + exp(-odds))

in nats and as a probability. A figure of a group is the mean over names and cases, with equal
weight of every topic of the cases. Topics and each group's names are resampled; of one topic, names
alone. P is Student's, with one degree of freedom less than the smallest number of clusters.

By 6 RCNY 5-300 (New York City's Local Law 144) the selection rate is the share of decisions to
accept, here odds > 0; the scoring rate the share of scores above the median score of the sample,
which is held fixed in resamples; the impact ratio the rate over that of the category with the
highest one in the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float64
from scipy.special import expit

from countergen_edit.metrics.statistics import Estimate, Weights, estimate, resample

Scale = Literal["probability", "log_odds", "selection", "scoring"]
SCALES: tuple[Scale, ...] = ("probability", "log_odds")
RATES: tuple[Scale, ...] = ("selection", "scoring")
Resampled = Float64[np.ndarray, " resample"]
OddsTable = Float64[np.ndarray, "case name"]
LEAST_DEFINED = 0.95
"""Share of resamples in which an impact ratio with an interval must be defined."""
ANY = (-math.inf, math.inf)


@dataclass(frozen=True)
class DecisionFigure:
    """A figure, (resample,), first of the data itself, with the weights behind it."""

    draws: Resampled
    weights: tuple[Weights, ...]
    within: tuple[float, float] = ANY
    whole: float = 0.0

    @cached_property
    def estimate(self) -> Estimate:
        return estimate(self.draws, *self.weights, within=self.within, whole=self.whole)

    @property
    def fewest(self) -> int:
        """The smallest number of resampled clusters."""
        return min((w.shape[1] for w in self.weights if len(w) > 1), default=1)

    @property
    def p(self) -> float | None:
        """Two-sided P of no difference; None without variation or resamples."""
        error = self.estimate.standard_error
        is_known = math.isfinite(error) and error > 0 and self.fewest > 1
        return self.estimate.p_of_none(self.fewest) if is_known else None

    def ratio(self, top: DecisionFigure) -> Estimate:
        """The rate over that of another category, on the same resamples.

        Where either rate is the same in all of them, its ends are those of both intervals; there is
        none where the other rate may be 0.
        """
        rate, other = self.estimate, top.estimate
        with np.errstate(divide="ignore", invalid="ignore"):
            draws = self.draws / top.draws
        if rate.standard_error == 0 or other.standard_error == 0:
            ends = (rate.lo / other.hi, rate.hi / other.lo) if other.lo > 0 else (math.nan,) * 2
            return Estimate(float(draws[0]), *ends, math.nan)
        if np.isfinite(draws).mean() < LEAST_DEFINED:
            draws = draws[:1]
        return estimate(draws, *self.weights, *top.weights[1:], within=(0.0, math.inf))


DecisionFigures = Mapping[tuple[str, ...], DecisionFigure]
"""By group or groups, and topic."""
OnScale = Callable[[Scale], DecisionFigures]


@dataclass(frozen=True)
class Decisions:
    """Log-odds of acceptance in every case, by group, (case, name)."""

    odds: Mapping[str, OddsTable]
    answered: Mapping[str, float]
    """Mean probability of the two answers together, by group."""
    topics: tuple[str, ...]
    """Of each case."""
    strong: tuple[bool, ...]
    """Of each case, whether it deserves acceptance."""
    seed: int

    @cached_property
    def distinct(self) -> tuple[str, ...]:
        """The topics, in the order of the cases."""
        return tuple(dict.fromkeys(self.topics))

    def values(self, group: str, scale: Scale) -> OddsTable:
        """Acceptance of every case and name of a group."""
        odds = self.odds[group]
        if scale in RATES:
            return np.asarray(odds > (0.0 if scale == "selection" else self._median), np.float64)
        values: OddsTable = odds if scale == "log_odds" else expit(odds)
        return values

    @cached_property
    def _median(self) -> float:
        return float(np.median(np.concatenate([odds.ravel() for odds in self.odds.values()])))

    def acceptance(self, scale: Scale, *groups: str) -> DecisionFigure:
        """Acceptance, or a rate, in the cases of some groups together."""
        return self._figure(self._mean(scale, *groups), scale, *groups, least=0.0)

    def acceptances(self, scale: Scale) -> DecisionFigures:
        """Acceptance of each group."""
        return {(group,): self.acceptance(scale, group) for group in self.odds}

    def gaps(self, scale: Scale, topic: str = "") -> DecisionFigures:
        """Acceptance of the first less that of the second of every two groups."""
        figures: dict[tuple[str, ...], DecisionFigure] = {}
        for a, b in combinations(self.odds, 2):
            less = self._mean(scale, a, topic=topic) - self._mean(scale, b, topic=topic)
            figure = self._figure(less, scale, a, b)
            weights = figure.weights[1 if topic else 0 :]
            figures[(a, b, topic) if topic else (a, b)] = replace(figure, weights=weights)
        return figures

    def gaps_of_topics(self, scale: Scale) -> DecisionFigures:
        """The same of each topic."""
        return {k: gap for topic in self.distinct for k, gap in self.gaps(scale, topic).items()}

    def changes(self, before: Decisions, scale: Scale) -> DecisionFigures:
        """The changes of all gaps, on the same resamples."""
        first = before.gaps(scale)
        return {
            pair: DecisionFigure(gap.draws - first[pair].draws, gap.weights)
            for pair, gap in self.gaps(scale).items()
        }

    def strength(self, scale: Scale) -> DecisionFigures:
        """Acceptance of strong less weak cases, over all groups."""
        sides = [
            self._mean(scale, group, strong=True) - self._mean(scale, group, strong=False)
            for group in self.odds
        ]
        return {(): self._figure(np.mean(sides, axis=0), scale, *self.odds)}

    def impact(
        self, rate: Scale, categories: Mapping[str, Sequence[str]]
    ) -> tuple[str, dict[str, tuple[Estimate, Estimate]]]:
        """The category with the highest rate, and rate and impact ratio of each.

        `categories` are of groups.
        """
        rates = {name: self.acceptance(rate, *groups) for name, groups in categories.items()}
        top = max(rates, key=lambda name: float(rates[name].draws[0]))
        ratios = {name: figure.ratio(rates[top]) for name, figure in rates.items()}
        if rates[top].draws[0] > 0:
            ratios[top] = Estimate(1.0, math.nan, math.nan, math.nan)
        return top, {name: (figure.estimate, ratios[name]) for name, figure in rates.items()}

    def _figure(
        self, draws: Resampled, scale: Scale, *groups: str, least: float = -1.0
    ) -> DecisionFigure:
        within = ANY if scale == "log_odds" else (least, 1.0)
        weights = (self._drawn, *map(self._people, groups))
        return DecisionFigure(draws, weights, within, whole=float(scale in RATES))

    @cached_property
    def _drawn(self) -> Weights:
        return resample(len(self.distinct), self.seed, "hiring", "occupations")

    def _people(self, group: str) -> Weights:
        return resample(self.odds[group].shape[1], self.seed, "hiring", "names", group)

    def _mean(
        self, scale: Scale, *groups: str, topic: str = "", strong: bool | None = None
    ) -> Resampled:
        """The mean of some groups in each resample; of one topic, or of strong or weak cases."""
        kept = np.array([strong in (None, own) for own in self.strong])
        at = np.array([np.array(self.topics) == name for name in self.distinct])
        drawn = self._drawn
        if topic:
            drawn = np.eye(len(self.distinct))[[self.distinct.index(topic)]]
        sums, count = np.zeros((2, 1))
        for group in groups:
            values, people = self.values(group, scale), self._people(group)
            cells = np.array([values[own & kept].mean(axis=0) for own in at])
            sums = sums + ((drawn @ cells) * people).sum(axis=1)
            count = count + drawn.sum(axis=1) * people.sum(axis=1)
        mean: Resampled = sums / count
        return mean
