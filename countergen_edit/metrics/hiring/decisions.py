"""Acceptance by group, between groups and by occupation, from log-probabilities of two answers.

For application a and person n of group g, with y and n the log P of either answer,

    odds(a, g, n) = y - n        acceptance(a, g, n) = 1 / (1 + exp(-odds))

in nats and as a probability. A figure of a group is the mean over names and applications, with
equal weight of every occupation. Vacancies (with their curricula vitae and questions) and each
group's names are resampled; of one occupation, names alone. P is Student's, with one degree of
freedom less than the smallest number of resampled clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float64
from scipy.special import expit

from countergen_edit.data.hiring import STRENGTHS, Application
from countergen_edit.metrics.statistics import Estimate, Weights, estimate, resample

Scale = Literal["probability", "log_odds"]
SCALES: tuple[Scale, ...] = ("probability", "log_odds")
Drawn = Float64[np.ndarray, " resample"]
Scores = Float64[np.ndarray, "application name"]

ACCEPTANCE, STRENGTH, GAP = "hiring_acceptance", "hiring_strength", "hiring_gap"
CHANGE, OF_OCCUPATION = "hiring_gap_change", "hiring_gap_of_occupation"
OUT_OF_VOCABULARY = "hiring_out_of_vocabulary"
EXAMPLES = 6
"""Unknown words kept in a row."""


@dataclass(frozen=True)
class Figure:
    """A figure, (resample,), first of the data itself, with the weights behind it."""

    draws: Drawn
    weights: tuple[Weights, ...]
    within: tuple[float, float]

    @cached_property
    def estimate(self) -> Estimate:
        """With its interval."""
        return estimate(self.draws, *self.weights, within=self.within)

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
        values: Scores = odds if scale == "log_odds" else expit(odds)
        return values

    def answered(self, group: str) -> float:
        """Mean probability of the two answers together."""
        return float(np.exp(np.logaddexp(self.accept[group], self.reject[group])).mean())

    def invited(self, group: str) -> float:
        """Share of applications that are likelier accepted than not."""
        return float((self.values(group, "log_odds") > 0).mean())

    def acceptance(self, group: str, scale: Scale) -> Figure:
        return self._figure(self._mean(group, scale), scale, group, least=0.0)

    def gap(self, a: str, b: str, scale: Scale) -> Figure:
        """Acceptance of group a less that of group b."""
        return self._figure(self._mean(a, scale) - self._mean(b, scale), scale, a, b)

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
        sides = [self._mean(g, scale, strong) - self._mean(g, scale, weak) for g in self.groups]
        return self._figure(np.mean(sides, axis=0), scale, *self.groups)

    def _figure(self, draws: Drawn, scale: Scale, *groups: str, least: float = -1.0) -> Figure:
        limits = (least, 1.0) if scale == "probability" else (-math.inf, math.inf)
        return Figure(draws, (self._drawn, *map(self._people, groups)), limits)

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

    def _mean(self, group: str, scale: Scale, strength: str | None = None) -> Drawn:
        vacancies, people = self._drawn, self._people(group)
        sums = ((vacancies @ self._cells(group, scale, strength)) * people).sum(axis=1)
        mean: Drawn = sums / (vacancies.sum(axis=1) * people.sum(axis=1))
        return mean
