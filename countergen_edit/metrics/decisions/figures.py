"""Rates of decisions about people, with intervals over topics and people.

A decision is worth y to the person: 1 if it is favourable, 0 if not, a score in between; of a model
the expected worth of its answers, y = sum_a P(a) worth(a) / sum_a P(a). The rate of a group is the
mean of y. A figure of rates has an influence h of each decision, w (y - rate) / sum w of a rate.
Decisions of one topic t or of one person p depend on each other. With r the influence less its mean
over the group's people of the topic, the variance has the topics' part and that of people who are
in several,

    V = T/(T - 1) sum_t (sum h)^2 + max(0, sum over groups of C)
    C = P/(P - 1) sum_p [(sum r)^2 - sum_t (sum r)^2]

or, of one topic, P/(P - 1) sum_p (sum h)^2: two-way clusters (Cameron, Gelbach and Miller, Journal
of Business & Economic Statistics 29, 2011) without the effect of a topic on both groups.
Interval and P are Student's, with Satterthwaite's degrees of freedom of the sums over topics and of
those over people; intervals of rates are made of their log-odds, those of ratios of logarithms.

The within-group null deals the residuals of people from the mean of their group out to two groups
of the same sizes. It holds for these cases, the interval for further ones.

By 6 RCNY 5-300 (New York City's Local Law 144) the selection rate is the share of favourable
decisions, here y > 1/2; the scoring rate the share with y above the median of the sample, which is
held fixed; the impact ratio the rate over that of the category with the highest one in the data.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64
from scipy.special import expit, logit, stdtr, stdtrit

from countergen_edit.core.seeds import generator
from countergen_edit.metrics.statistics import CONSTANT, LEVEL, TAIL, Estimate, share_interval

Scale = Literal["worth", "selection", "scoring"]
Influence = Float64[np.ndarray, " decision"]
Kept = Bool[np.ndarray, " decision"]
_DEALS = 1999


@dataclass(frozen=True)
class DecisionFigure:
    """A figure of some decisions `of` a table, with the influence of each decision of the table.

    `share` tells whether it is a share of whole decisions.
    """

    table: DecisionTable
    value: float
    influence: Influence
    of: Kept
    is_rate: bool = False
    share: bool = False

    def __sub__(self, other: DecisionFigure) -> DecisionFigure:
        influence = self.influence - other.influence
        return DecisionFigure(self.table, self.value - other.value, influence, self.of | other.of)

    @cached_property
    def fewest(self) -> int:
        """The number of its topics, or people of a group, if they are fewer."""
        codes = self.table.codes[self.of]
        people = codes.groupby("group")["person"].nunique().min()
        topics = codes["topic"].nunique()
        return int(min(topics, people) if topics > 1 else people)

    @cached_property
    def spread(self) -> tuple[float, float]:
        """Standard error and degrees of freedom; 0 where nothing varies."""
        codes = self.table.codes.assign(h=self.influence)[self.of]
        codes = codes.assign(
            r=codes["h"] - codes.groupby(["group", "topic"])["h"].transform("mean")
        )
        of_topics = codes.groupby("topic")["h"].sum()
        topics, of_people, repeated, people = len(of_topics), 0.0, 0.0, 0
        for _, own in codes.groupby("group"):
            sums = own.groupby("person")["h" if topics == 1 else "r"].sum()
            if (count := len(sums)) > 1:
                factor, cells = count / (count - 1), own.groupby(["topic", "person"])["r"].sum()
                of_people += factor * float((sums**2).sum())
                repeated += factor * float((cells**2).sum()) if topics > 1 else 0.0
                people += count - 1
        total, parts = max(of_people - repeated, 0.0), of_people**2 / max(people, 1)
        if topics > 1:
            variance = float((of_topics**2).sum()) * topics / (topics - 1)
            total, parts = total + variance, parts + variance**2 / (topics - 1)
        if total < CONSTANT**2:  # of rounding
            return 0.0, 0.0
        return math.sqrt(total), max(total**2 / parts, 1.0)

    @property
    def estimate(self) -> Estimate:
        """The value with its interval: of a share without variation exact, of others then none."""
        error, freedom = self.spread
        if self.share and not error and self.fewest > 1:
            ends = share_interval(round(self.value, 9) * self.fewest, self.fewest)
            return Estimate(self.value, *ends, 0.0)
        if not freedom:
            return Estimate(self.value)
        reach = float(stdtrit(freedom, TAIL)) * error
        if self.is_rate and 0 < self.value < 1:
            reach /= self.value * (1 - self.value)
            lo, hi = expit(logit(self.value) + np.array([-reach, reach])).tolist()
        else:
            lo, hi = max(self.value - reach, -1.0), min(self.value + reach, 1.0)
        return Estimate(self.value, lo, hi, error)

    @property
    def p(self) -> float | None:
        """Two-sided P of no difference; None without variation."""
        error, freedom = self.spread
        return 2 * float(stdtr(freedom, -abs(self.value) / error)) if freedom else None

    @property
    def detectable(self) -> float | None:
        """The smallest difference that is found four times out of five; None if unknown."""
        error, freedom = self.spread
        return float(stdtrit(freedom, [TAIL, 0.8]).sum()) * error if freedom else None

    def ratio(self, top: DecisionFigure) -> Estimate:
        """The rate over that of another category.

        Where either does not vary, the ends are those of both intervals. Undefined of a rate of 0.
        """
        rate, other = self.estimate, top.estimate
        if not other.value > 0:
            return Estimate(math.nan)
        value = rate.value / other.value
        if 0 in (rate.standard_error, other.standard_error):
            ends = (rate.lo / other.hi, rate.hi / other.lo) if other.lo > 0 else (math.nan,) * 2
            return Estimate(value, *ends)
        if not rate.value > 0:
            return Estimate(value)
        influence = self.influence / self.value - top.influence / top.value
        error, freedom = DecisionFigure(self.table, value, influence, self.of | top.of).spread
        if not freedom:
            return Estimate(value)
        reach = math.exp(float(stdtrit(freedom, TAIL)) * error)
        return Estimate(value, value / reach, value * reach, value * error)


DecisionFigures = Mapping[tuple[str, ...], DecisionFigure]
"""By group or groups, and topic."""


@dataclass(frozen=True)
class DecisionTable:
    """Decisions, a row each.

    Their columns are `worth`, from 0 to 1; `group`, `topic` and `person`; `weight`; `label`, the
    worth of the right decision, NaN where it is unknown; and `order`, 1 where a model was asked
    with the answers in reverse. `seed` and `unit` name the deals of the null.
    """

    decisions: pd.DataFrame
    seed: int = 0
    unit: str = "decisions"

    @cached_property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.decisions["group"].unique())

    @property
    def is_scored(self) -> bool:
        """Whether some decision is neither favourable nor unfavourable."""
        return bool(self.decisions["worth"].between(0, 1, "neither").any())

    def n(self, groups: Collection[str], topic: str = "") -> int:
        """The number of decisions about some groups, or all; of one topic, or all."""
        of = self.decisions["group"].isin(groups or self.groups)
        return int((of & ((self.decisions["topic"] == topic) | (not topic))).sum())

    def rate(self, scale: Scale, *groups: str) -> DecisionFigure:
        """The mean worth of some groups together, or a rate."""
        worth = self.decisions["worth"].to_numpy(np.float64)
        above = {"selection": 0.5, "scoring": float(np.median(worth))}
        values = worth if scale == "worth" else (worth > above[scale]).astype(np.float64)
        own = self._mean(values, self.decisions["group"].isin(groups).to_numpy())
        return replace(own, is_rate=True, share=scale != "worth" or not self.is_scored)

    def rates(self) -> DecisionFigures:
        return {(group,): self.rate("worth", group) for group in self.groups}

    def differences(self) -> DecisionFigures:
        """The rate of the first less that of the second of every two groups."""
        rates = self.rates()
        return {(a, b): rates[a,] - rates[b,] for a, b in combinations(self.groups, 2)}

    def differences_of_topics(self) -> DecisionFigures:
        """The same in each topic, over people alone; of one topic none."""
        every = [*self.decisions.groupby("topic", sort=False)]
        return {
            (*pair, str(topic)): figure
            for topic, own in (every if every[1:] else ())
            for pair, figure in replace(self, decisions=own).differences().items()
        }

    def changes(self, before: DecisionTable) -> DecisionFigures:
        """The changes of all differences of the same cases."""
        first = before.differences()
        return {pair: now - first[pair] for pair, now in self.differences().items()}

    def contrast(self, column: str) -> DecisionFigures:
        """Decisions with the higher values of a column less the others, averaged over groups.

        Empty without both.
        """
        values = self.decisions[column].to_numpy(np.float64)
        worth = self.decisions["worth"].to_numpy(np.float64)
        sides = []
        for group in self.groups:
            of = (self.decisions["group"] == group).to_numpy()
            high, low = of & (values > 0.5), of & (values <= 0.5)
            if not (high.any() and low.any()):
                return {}
            sides.append(self._mean(worth, high) - self._mean(worth, low))
        influence = np.mean([side.influence for side in sides], axis=0)
        value = float(np.mean([side.value for side in sides]))
        return {(): DecisionFigure(self, value, influence, ~np.isnan(values))}

    def null(self, a: str, b: str) -> tuple[float, float] | None:
        """The difference that 95 % of the within-group deals do not exceed, and its P.

        P is the share of deals with a difference as large as the observed one. None of one person.
        """
        rest, weights, sizes = [], [], []
        for group in (a, b):
            own = self.decisions.assign(h=self.rate("worth", group).influence)
            of_people = own[own["group"] == group].groupby("person")[["h", "weight"]].sum()
            if (n := len(of_people)) < 2:
                return None
            weights.append(of_people["weight"])
            rest.append(of_people["h"] * weights[-1].sum() * math.sqrt(n / (n - 1)))
            sizes.append(n)
        residual, count = np.concatenate(rest), np.concatenate(weights)
        rng, deals = generator(self.seed, self.unit, "null", a, b), min(_DEALS, 10**7 // sum(sizes))
        side = rng.permuted(np.tile(np.arange(sum(sizes)) < sizes[0], (deals, 1)), axis=1)
        dealt = np.abs(side @ residual / (side @ count) - ~side @ residual / (~side @ count))
        observed = abs(self.differences()[a, b].value)
        larger = int((dealt >= observed * (1 - 1e-9)).sum())
        return float(np.quantile(dealt, LEVEL)), (1 + larger) / (1 + deals)

    def impact(
        self, rate: Scale, categories: Mapping[str, Sequence[str]]
    ) -> tuple[str, dict[str, tuple[Estimate, Estimate]]]:
        """The category with the highest rate, and rate and impact ratio of each.

        `categories` are of groups. The ratio of the highest rate is 1 by definition.
        """
        rates = {name: self.rate(rate, *groups) for name, groups in categories.items()}
        top = max(rates, key=lambda name: rates[name].value)
        ratios = {name: figure.ratio(rates[top]) for name, figure in rates.items()}
        if rates[top].value > 0:
            ratios[top] = Estimate(1.0, 1.0, 1.0)
        return top, {name: (figure.estimate, ratios[name]) for name, figure in rates.items()}

    @cached_property
    def codes(self) -> pd.DataFrame:
        """Numbers of the group, topic and person of each decision."""
        own = self.decisions[["group", "topic", "person"]]
        return own.apply(lambda column: pd.factorize(column)[0]).reset_index(drop=True)

    def _mean(self, values: Float64[np.ndarray, " decision"], of: Kept) -> DecisionFigure:
        weight = self.decisions["weight"].to_numpy(np.float64) * of
        share = weight / weight.sum()
        value = float(share @ values)
        return DecisionFigure(self, value, share * (values - value), of)
