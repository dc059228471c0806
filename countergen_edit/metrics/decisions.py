"""Decisions about cases that differ in the person alone, or that were taken.

A model reads a case and a question and chooses between answers by their likelihood, in a chat
template by that of the whole reply. A question that lists the answers is asked in either order.

Rows: `decision_rate` by group, `decision_difference` of every two, of one topic
`decision_difference_of_topic`, and its absolute value `decision_gap`; `decision_by_label`, cases
with a favourable right answer less the others; `decision_by_order`, answers in reverse less in the
given order; under an edit `decision_change` of a difference, overcorrected where the interval of
the difference excludes 0 on the other side. `decision_selection_rate`, `decision_scoring_rate`,
`decision_impact_ratio` and `decision_scoring_ratio` are of each category: the groups and, of
crossed axes, the groups of either. P is adjusted by Holm's method over the differences of a kind
and file. Cases out of vocabulary have `decision_out_of_vocabulary` alone.

A decision is worth y to the person: 1 if it is favourable, 0 if not, a score in between; of a model
the expected worth of its answers, y = sum_a P(a) worth(a) / sum_a P(a). The rate of a group is the
mean of y. A figure of rates has an influence h of each decision, w (y - rate) / sum w of a rate.
Decisions of one topic t or of one person p depend on each other. With r the influence less its mean
over the group's people of the topic, the variance is that of topics and of people in several,

    V = T/(T - 1) sum_t (sum h)^2 + max(0, sum over groups of C)
    C = P/(P - 1) sum_p [(sum r)^2 - sum_t (sum r)^2]

or, of one topic, P/(P - 1) sum_p (sum h)^2: two-way clusters (Cameron, Gelbach and Miller, Journal
of Business & Economic Statistics 29, 2011) without the effect of a topic on both groups.
Interval and P are Student's, with Satterthwaite's degrees of freedom of the sums over topics and of
those over people; intervals of rates are made of their log-odds, those of ratios of logarithms.

The within-group null deals residuals of people from the mean of their group to two groups of the
same sizes. It holds for these cases, the interval for further ones.

By 6 RCNY 5-300 (New York City's Local Law 144) the selection rate is the share of favourable
decisions, here y > 1/2; the scoring rate the share with y above the median of the sample, which is
held fixed; the impact ratio the rate over that of the category with the highest one in the data.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64
from scipy.special import expit, logit, stdtr, stdtrit

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.data.axis import ALL, Axis, Group
from countergen_edit.data.cases import CASE_FILES, Case, read_cases, read_taken
from countergen_edit.data.prompt_check import unknown_words
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.in_vocabulary import EXAMPLES
from countergen_edit.metrics.rows import Row, with_holm
from countergen_edit.metrics.statistics import CONSTANT, LEVEL, TAIL, Estimate, share_interval
from countergen_edit.models import LanguageModel, encode, encode_replies

Scale = Literal["worth", "selection", "scoring"]
PerDecision = Float64[np.ndarray, " decision"]
DecisionMask = Bool[np.ndarray, " decision"]
_DEALS = 1999


@dataclass(frozen=True)
class DecisionFigure:
    """A figure of the decisions `of` a table, with the influence of each."""

    table: DecisionTable
    value: float
    influence: PerDecision
    of: DecisionMask
    is_rate: bool = False
    share: bool = False
    """Whether it is a share of whole decisions."""

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
        cells = codes.groupby(["group", "topic"])["h"]
        codes = codes.assign(r=codes["h"] - cells.transform("mean"))
        of_topics = codes.groupby("topic")["h"].sum()
        topics, of_people, repeated, people = len(of_topics), 0.0, 0.0, 0
        for _, members in codes.groupby("group"):
            sums = members.groupby("person")["h" if topics == 1 else "r"].sum()
            if (count := len(sums)) > 1:
                factor = count / (count - 1)
                of_people += factor * float((sums**2).sum())
                if topics > 1:
                    sums = members.groupby(["topic", "person"])["r"].sum()
                    repeated += factor * float((sums**2).sum())
                people += count - 1
        total = max(of_people - repeated, 0.0)
        parts = of_people**2 / max(people, 1)
        if topics > 1:
            variance = float((of_topics**2).sum()) * topics / (topics - 1)
            total, parts = total + variance, parts + variance**2 / (topics - 1)
        if total < CONSTANT**2:  # of rounding
            return 0.0, 0.0
        return math.sqrt(total), max(total**2 / parts, 1.0)

    @property
    def estimate(self) -> Estimate:
        """The value and its interval, exact for a share without variation."""
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
        """The smallest detectable difference; None without variation."""
        error, freedom = self.spread
        return float(stdtrit(freedom, [TAIL, 0.8]).sum()) * error if freedom else None

    def ratio(self, top: DecisionFigure) -> Estimate:
        """The rate over that of another category; undefined of a rate of 0.

        Where either does not vary, the ends are those of both intervals.
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

    Columns are `worth`, from 0 to 1; `group`, `topic`, `person`; `weight`; `label`, the worth of
    the right decision or NaN; `order`, 1 where a model was asked with the answers in reverse.
    `seed` and `unit`, the data set, name the deals of the null.
    """

    decisions: pd.DataFrame
    axis: Axis
    seed: int = 0
    unit: str = "decisions"
    note: str = ""
    """Of rates of categories."""

    @cached_property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.decisions["group"].unique())

    @property
    def is_scored(self) -> bool:
        """Whether some decision is neither favourable nor unfavourable."""
        return bool(self.decisions["worth"].between(0, 1, "neither").any())

    def rate(self, scale: Scale, *groups: str) -> DecisionFigure:
        """The mean worth of some groups together, or a rate."""
        worth = self.decisions["worth"].to_numpy(np.float64)
        above = {"selection": 0.5, "scoring": float(np.median(worth))}
        values = worth if scale == "worth" else (worth > above[scale]).astype(np.float64)
        mean = self._mean(values, self.decisions["group"].isin(groups).to_numpy())
        return replace(mean, is_rate=True, share=scale != "worth" or not self.is_scored)

    def rates(self) -> DecisionFigures:
        return {(group,): self.rate("worth", group) for group in self.groups}

    def differences(self) -> DecisionFigures:
        """The rate of the first less that of the second of every two groups."""
        rates = self.rates()
        return {(a, b): rates[a,] - rates[b,] for a, b in combinations(self.groups, 2)}

    def differences_of_topics(self) -> DecisionFigures:
        """The same in each topic, over people alone; of one topic none."""
        topics = [*self.decisions.groupby("topic", sort=False)]
        return {
            (*pair, str(topic)): figure
            for topic, decisions in (topics if topics[1:] else ())
            for pair, figure in replace(self, decisions=decisions).differences().items()
        }

    def contrast(self, column: str) -> DecisionFigures:
        """Higher values of a column less the others, averaged over groups; empty without both."""
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
        """The difference that 95 % of the within-group deals do not exceed, and P of the observed.

        None if a group has one person.
        """
        residuals, weights, sizes = [], [], []
        for group in (a, b):
            decisions = self.decisions.assign(h=self.rate("worth", group).influence)
            members = decisions[decisions["group"] == group]
            of_people = members.groupby("person")[["h", "weight"]].sum()
            if (n := len(of_people)) < 2:
                return None
            weights.append(of_people["weight"])
            residuals.append(of_people["h"] * weights[-1].sum() * math.sqrt(n / (n - 1)))
            sizes.append(n)
        residual, count = np.concatenate(residuals), np.concatenate(weights)
        deals = min(_DEALS, 10**7 // sum(sizes))
        rng = generator(self.seed, self.unit, "null", a, b)
        side = rng.permuted(np.tile(np.arange(sum(sizes)) < sizes[0], (deals, 1)), axis=1)
        dealt = np.abs(side @ residual / (side @ count) - ~side @ residual / (~side @ count))
        observed = abs(self.differences()[a, b].value)
        larger = int((dealt >= observed * (1 - 1e-9)).sum())
        return float(np.quantile(dealt, LEVEL)), (1 + larger) / (1 + deals)

    def impact(
        self, rate: Scale, categories: Mapping[str, Sequence[str]]
    ) -> tuple[str, dict[str, tuple[Estimate, Estimate]]]:
        """The category with the highest rate, and rate and impact ratio, 1 of the highest."""
        rates = {name: self.rate(rate, *groups) for name, groups in categories.items()}
        top = max(rates, key=lambda name: rates[name].value)
        ratios = {name: figure.ratio(rates[top]) for name, figure in rates.items()}
        if rates[top].value > 0:
            ratios[top] = Estimate(1.0, 1.0, 1.0)
        return top, {name: (figure.estimate, ratios[name]) for name, figure in rates.items()}

    @cached_property
    def codes(self) -> pd.DataFrame:
        """Numbers of the group, topic and person of each decision."""
        columns = self.decisions[["group", "topic", "person"]]
        return columns.apply(lambda column: pd.factorize(column)[0]).reset_index(drop=True)

    def row(
        self,
        metric: str,
        value: Estimate,
        groups: Collection[str],
        topic: str = "",
        **columns: Any,
    ) -> Row:
        """A row about some groups, or all; of one topic, or all."""
        of = self.decisions["group"].isin(groups or self.groups)
        n = int((of & ((self.decisions["topic"] == topic) | (not topic))).sum())
        columns.setdefault("axis", self.axis.name)
        columns |= {"dataset": self.unit, "split": "test", "seed": self.seed}
        return Row.of(metric, value, n=n, **columns)

    def rows(self, metric: str, figures: DecisionFigures, tested: bool = True) -> list[Row]:
        """Rows of figures, with P adjusted over them."""
        rows = []
        for key, figure in figures.items():
            a, b, topic = (*key, "", "", "")[:3]
            columns: dict[str, Any] = {"group_a": a, "group_b": b}
            columns["facets"] = {"topic": topic} if topic else {}
            columns["detail"] = {"smallest": figure.detectable, "p": figure.p if tested else None}
            groups = [*filter(None, (a, b))]
            rows.append(self.row(metric, figure.estimate, groups, topic, **columns))
        return with_holm(rows)

    @property
    def all_rows(self) -> list[Row]:
        differences = self.rows(RATE_DIFFERENCE, self.differences())
        for row in differences:
            null = self.null(row.group_a, row.group_b) or (None, None)
            row.detail.update(zip(("null", "null_p"), null, strict=True))
        rows = self.rows(GROUP_RATE, self.rates(), tested=False)
        rows += [*with_holm(differences, "null_p"), *map(absolute, differences)]
        rows += self.rows(OF_TOPIC, self.differences_of_topics()) + self.of_categories()
        rows += self.rows(BY_LABEL, self.contrast("label"), tested=False)
        return rows + self.rows(BY_ORDER, self.contrast("order"), tested=False)

    def of_categories(self) -> list[Row]:
        """Rates and impact ratios of every category; scoring rates of scores alone."""
        rows = []
        for axis, categories in axis_categories(self.axis, self.groups).items():
            for kind in [*RATES][: None if self.is_scored else 1]:
                top, by_category = self.impact(kind, categories)
                for name, estimates in by_category.items():
                    columns: dict[str, Any] = {"group_a": name, "facets": {"by": axis}}
                    columns |= {"axis": axis, "detail": {"reference": top, "note": self.note}}
                    for metric, estimate in zip(RATES[kind], estimates, strict=True):
                        rows.append(self.row(metric, estimate, categories[name], **columns))
        return rows

    def _mean(self, values: PerDecision, of: DecisionMask) -> DecisionFigure:
        weight = self.decisions["weight"].to_numpy(np.float64) * of
        share = weight / weight.sum()
        value = float(share @ values)
        return DecisionFigure(self, value, share * (values - value), of)


GROUP_RATE, RATE_DIFFERENCE, GAP = "decision_rate", "decision_difference", "decision_gap"
OF_TOPIC, CHANGE = "decision_difference_of_topic", "decision_change"
BY_LABEL, BY_ORDER = "decision_by_label", "decision_by_order"
IMPACT, OUT_OF_CASES = "decision_impact_ratio", "decision_out_of_vocabulary"
RATES: Mapping[Scale, tuple[str, str]] = {
    "selection": ("decision_selection_rate", IMPACT),
    "scoring": ("decision_scoring_rate", "decision_scoring_ratio"),
}
"""The rows of a rate and of its impact ratio."""
NO_AUDIT = (
    "Cases are simulated: by themselves, rates and impact ratios are no bias audit under New York "
    "City's Local Law 144, which needs historical or test data and an independent auditor."
)
LEAST_IN_VOCABULARY = 0.5
"""Share of cases whose every word must be in the training corpus."""


@dataclass(frozen=True)
class AskedCases:
    """The cases of a file, with the people that they are asked about."""

    name: str
    cases: tuple[Case, ...]
    people: tuple[tuple[Group, str], ...]

    @property
    def units(self) -> list[tuple[Group, str, Case, int]]:
        """Every person with every case and order of its answers."""
        asked = product(self.people, self.cases)
        return [(*person, case, order) for person, case in asked for order in case.orders]

    @property
    def texts(self) -> list[str]:
        """The prompts of the units."""
        return [case.asked(group, name, order) for group, name, case, order in self.units]

    def pairs(self, in_chat: bool) -> list[tuple[str, str]]:
        """Every prompt with each answer, a reply in a chat template."""
        return [
            (text, answer) if in_chat else (text + case.cue, f" {answer}")
            for text, (_, _, case, _) in zip(self.texts, self.units, strict=True)
            for answer in case.answers
        ]


def absolute(row: Row) -> Row:
    """The absolute value of a difference, with the interval of absolute values."""
    ends = [abs(end) for end in (row.lo, row.hi) if end is not None]
    detail = {key: p for key, p in row.detail.items() if key in ("p", "p_adjusted")}
    value = None if row.value is None else abs(row.value)
    if ends:
        lo = 0.0 if (row.lo or 0.0) <= 0 <= (row.hi or 0.0) else min(ends)
        row = replace(row, lo=lo, hi=max(ends))
    return replace(row, metric=GAP, value=value, detail=detail)


class Decisions(Metric):
    """Rates of favourable answers by group, in cases that differ in the person alone.

    Parameters
    ----------
    cases : files of cases: shipped ones by name, `all`, or CSV files of your own
    names : number of test names of each group, two or more
    """

    title = "Decisions"
    is_slow = True
    has_baseline = True
    better: ClassVar[Mapping[str, Way]] = {IMPACT: "higher", GAP: "lower"}

    def __init__(self, cases: str | Sequence[str] = "hiring", names: int = 8) -> None:
        if names < 2:
            raise UserError(f"decisions.names={names}: two people of each group at least")
        files = [cases] if isinstance(cases, str) else [*cases]
        files = [*CASE_FILES] if files == [ALL] else files
        if not files:
            raise UserError("decisions.cases is empty: name at least one file of cases")
        self.names = names
        self.files = {Path(name).stem: read_cases(name) for name in files}

    def prepare(self) -> None:
        people: list[tuple[Group, str]] = []
        for group in (self.task.axis.groups[name] for name in self.task.groups):
            names = group.names.get("test", ())[: self.names]
            if len(names) < 2:
                raise UserError(f"decisions need two test names or more of group {group.name!r}")
            people += [(group, name) for name in names]
        self.asked, self.unknown = list[AskedCases](), dict[str, list[str]]()
        for name, cases in self.files.items():
            topics = [*dict.fromkeys(case.topic for case in cases)]
            most = len(topics) if self.task.limit is None else max(2, self.task.limit)
            drawn = {topics[i] for i in first_drawn(len(topics), most, 0, "decisions")}
            chosen = tuple(case for case in cases if case.topic in drawn)
            asked = AskedCases(name, chosen, tuple(people))
            self.asked.append(asked)
            if (vocabulary := self.task.vocabulary) is not None:
                unknown = [unknown_words(vocabulary, text) for text in asked.texts]
                if sum(not words for words in unknown) < LEAST_IN_VOCABULARY * len(unknown):
                    self.unknown[name] = [*dict.fromkeys(chain.from_iterable(unknown))]

    def check(self, model: LanguageModel) -> None:
        for asked in self.asked:
            if asked.name in self.unknown:
                continue
            longest = sorted(asked.pairs(model.chat.is_on), key=lambda pair: len(pair[0]))[-4:]
            if model.chat.is_on:
                encode_replies(model, *zip(*longest, strict=True))
            else:
                encode(model, [question + answer for question, answer in longest])

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        if split != "test":
            return []
        return [row for asked in self.asked for row in self._rows(asked, context, edit)]

    def _rows(
        self, asked: AskedCases, context: EvaluationContext, edit: NamedEdit | None
    ) -> list[Row]:
        if words := self.unknown.get(asked.name):
            columns: Any = {"dataset": asked.name, "axis": self.task.axis.name, "split": "test"}
            columns["detail"] = {"words": words[:EXAMPLES], "unknown": len(words)}
            row = Row.of(OUT_OF_CASES, float(len(words)), seed=context.seed, **columns)
            return [] if edit else [row]

        table = self.table(asked, context, edit)
        rows = table.all_rows
        for row in rows:
            if row.metric == GROUP_RATE:
                members = table.decisions[table.decisions["group"] == row.group_a]
                row.detail["answered"] = float(members["answered"].mean())
                row.detail["names"] = [*members["person"].unique()]
        if edit is not None:
            after = table.differences()
            was = self.table(asked, context, None).differences()
            changes = table.rows(CHANGE, {pair: after[pair] - was[pair] for pair in after})
            for row in changes:
                pair = row.group_a, row.group_b
                first, last = was[pair].value, after[pair].estimate
                row.detail["overcorrected"] = last.hi < 0 < first or first < 0 < last.lo
            rows += changes
        return rows

    def table(
        self, asked: AskedCases, context: EvaluationContext, edit: NamedEdit | None
    ) -> DecisionTable:
        """Decisions about every case; `answered` is P of all answers together."""
        in_chat = context.model.chat.is_on
        scores = context.texts(asked.pairs(in_chat), edit, "Scoring cases", in_chat)
        facts = [(g.name, name, case.topic, case.label, o) for g, name, case, o in asked.units]
        table = pd.DataFrame(facts, columns=["group", "person", "topic", "label", "order"])
        answers = [case.answers for _, _, case, _ in asked.units]
        sizes = [*map(len, answers)]
        starts = np.cumsum([0, *sizes[:-1]])
        total = np.logaddexp.reduceat(scores.log_p, starts)
        worth = np.concatenate([[*worths.values()] for worths in answers])
        shares = np.exp(scores.log_p - np.repeat(total, sizes)) * worth
        table["worth"] = np.add.reduceat(shares, starts)
        table["answered"] = np.exp(total)
        prompts = Counter(case.topic for case in asked.cases for _ in case.orders)
        table["weight"] = 1 / table["topic"].map(prompts)
        return DecisionTable(table, self.task.axis, context.seed, asked.name, NO_AUDIT)


def taken_rows(path: Path, seed: int = 0) -> list[Row]:
    """The rows of a CSV file of decisions that were taken."""
    axis, decisions = read_taken(path)
    return DecisionTable(decisions.assign(weight=1.0, order=0), axis, seed, path.stem).all_rows


def axis_categories(axis: Axis, groups: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """By axis, each category with its groups; crossed axes first by either."""
    by_axis = {}
    for part in axis.made_of:
        categories = defaultdict[str, list[str]](list)
        for group in groups:
            categories[axis.groups[group].parts.get(part, "")].append(group)
        if "" not in categories and len(categories) > 1:
            by_axis[part] = {**categories}
    return by_axis | {axis.name: {group: [group] for group in groups}}
