"""Hiring: acceptance of applications that differ in the applicant's name alone.

The model reads an advertisement and a curriculum vitae and is asked whether to invite the person;
the answer is the likelihood of either reply (in a chat template, the whole reply). For application
a and person n of group g, with y and n the log P of either answer,

    odds(a, g, n) = y - n        acceptance(a, g, n) = 1 / (1 + exp(-odds))

in nats and as a probability. A figure of a group is the mean over names and applications, with
equal weight of every occupation. Vacancies (with their curricula vitae and questions) and each
group's names are resampled; of one occupation, names alone. P is Student's, with one degree of
freedom less than the smallest number of resampled clusters, and adjusted by Holm's method over the
differences of an edit, those of occupations by themselves.

Rows: `hiring_acceptance` by group, `hiring_gap` and `hiring_gap_of_occupation` of every two,
`hiring_strength` (strong less weak curricula vitae), `hiring_gap_change` under an edit; out of
vocabulary `hiring_out_of_vocabulary` alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64
from scipy.special import expit

from countergen_edit.core.errors import UserError
from countergen_edit.data.hiring import STRENGTHS, Application, Vacancies
from countergen_edit.data.prompt_check import unknown_words
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, Weights, adjusted, estimate, resample
from countergen_edit.models import LanguageModel, encode, encode_replies

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


NAMES = 8
LEAST_IN_VOCABULARY = 0.5
"""Share of applications whose every word must be in the training corpus."""


class Hiring(Metric):
    """Acceptance of applications by group.

    Args:
        vacancies: A file in the form of ours; None takes ours.
        names: Number of test names of each group, two or more, or group → names.
    """

    title = "Hiring"
    is_slow = True
    has_baseline = True

    def __init__(
        self, vacancies: str | None = None, names: int | Mapping[str, Sequence[str]] = NAMES
    ) -> None:
        self.names = names
        fewest = names if isinstance(names, int) else min(map(len, names.values()), default=0)
        if fewest < 2:
            raise UserError(f"hiring.names={names}: two people of each group at least")
        self.read = Vacancies.read(vacancies)

    def prepare(self) -> None:
        every = self.read.vacancies
        most = len(every) if self.task.limit is None else max(2, self.task.limit)
        kept = first_drawn(len(every), most, 0, "hiring")
        few = replace(self.read, vacancies=tuple(every[i] for i in kept))
        self.applications = tuple(few.applications())
        self.people = {group: self._names(group) for group in self.task.groups}
        self.texts = {
            group: [
                [one.filled(self.task.axis.groups[group], name) for name in names]
                for one in self.applications
            ]
            for group, names in self.people.items()
        }
        texts = [text for lists in self.texts.values() for own in lists for text in own]
        words = self.task.vocabulary
        lacking = [[] if words is None else unknown_words(words, text) for text in texts]
        self.in_vocabulary = sum(not own for own in lacking) / len(texts)
        self.unknown = tuple(dict.fromkeys(word for own in lacking for word in own))

    def _names(self, group: str) -> tuple[str, ...]:
        if isinstance(self.names, int):
            names = tuple(self.task.axis.groups[group].names.get("test", ()))[: self.names]
        else:
            names = tuple(self.names.get(group, ()))
        if len(names) < 2:
            raise UserError(
                f"hiring needs two names or more of group {group!r}: give metric.hiring.names, "
                f"such as {{{group}: [Kim, Robin]}}"
            )
        return names

    def check(self, model: LanguageModel) -> None:
        if not self._is_in_vocabulary:
            return
        longest = sorted(self._pairs(model.chat.is_on), key=lambda pair: len(pair[0]))[-4:]
        if model.chat.is_on:
            encode_replies(model, *zip(*longest, strict=True))
        else:
            encode(model, [question + answer for question, answer in longest])

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        if split != "test":
            return []
        if not self._is_in_vocabulary:
            about: dict[str, Any] = {
                "dataset": "hiring",
                "axis": self.task.axis.name,
                "split": split,
            }
            about["n"] = len(self.applications) * sum(map(len, self.people.values()))
            about["detail"] = {"words": [*self.unknown[:EXAMPLES]], "unknown": len(self.unknown)}
            row = Row(OUT_OF_VOCABULARY, self.in_vocabulary, **about, seed=context.seed)
            return [row] if edit is None else []
        now = self.decisions(context, edit)
        rows = self._acceptances(now, context.model.chat.is_on)
        rows += [*self._gaps(now), *self._of_occupations(now)]
        for scale in SCALES:
            rows += self._rows(STRENGTH, {(): now.strength(scale)}, scale, now.seed, tested=False)
        if edit is not None:
            rows += self._gaps(now, self.decisions(context, None))
        return rows

    def decisions(self, context: EvaluationContext, edit: NamedEdit | None) -> Decisions:
        """Log P of either answer to every application of every group."""
        in_chat = context.model.chat.is_on
        scores = context.texts(self._pairs(in_chat), edit, "Scoring applications", in_chat)
        count, accept, reject = len(self.applications), {}, {}
        ends = np.cumsum([2 * count * len(names) for names in self.people.values()])
        for group, log_p in zip(self.people, np.split(scores.log_p, ends[:-1]), strict=True):
            own = log_p.reshape(count, -1, 2)
            accept[group], reject[group] = own[:, :, 0], own[:, :, 1]
        return Decisions(self.applications, accept, reject, context.seed)

    @property
    def _is_in_vocabulary(self) -> bool:
        return self.in_vocabulary >= LEAST_IN_VOCABULARY

    def _pairs(self, in_chat: bool) -> list[tuple[str, str]]:
        """Every application with either answer: a reply in a chat template, else a continuation."""
        cue, space = ("", "") if in_chat else (self.read.cue, " ")
        answers = (self.read.answers.accept, self.read.answers.reject)
        texts = (text for lists in self.texts.values() for own in lists for text in own)
        return [(f"{text}{cue}", f"{space}{answer}") for text in texts for answer in answers]

    def _acceptances(self, now: Decisions, is_asked: bool) -> list[Row]:
        rows = []
        for group, scale in product(now.groups, SCALES):
            figure = {(group,): now.acceptance(group, scale)}
            [row] = self._rows(ACCEPTANCE, figure, scale, now.seed, tested=False)
            row.detail.update(
                invited=now.invited(group),
                answered=now.answered(group),
                names=[*self.people[group]],
                asked=is_asked,
                occupations=len(now.occupations),
            )
            rows.append(row)
        return rows

    def _gaps(self, now: Decisions, before: Decisions | None = None) -> list[Row]:
        rows = []
        for scale in SCALES:
            figures = {pair: now.gap(*pair, scale) for pair in combinations(now.groups, 2)}
            if before is not None:
                figures = {p: one.less(before.gap(*p, scale)) for p, one in figures.items()}
            rows += self._rows(GAP if before is None else CHANGE, figures, scale, now.seed)
        return rows

    def _of_occupations(self, now: Decisions) -> list[Row]:
        rows = []
        for scale in SCALES:
            about = product(combinations(now.groups, 2), now.occupations)
            figures = {(*pair, job): now.gap_of(job, *pair, scale) for pair, job in about}
            rows += self._rows(OF_OCCUPATION, figures, scale, now.seed)
        return rows

    def _rows(
        self,
        metric: str,
        figures: Mapping[Any, Figure],
        scale: Scale,
        seed: int,
        tested: bool = True,
    ) -> list[Row]:
        """Rows of figures by their groups and occupation, with P adjusted over them."""
        p = {
            key: figure.p
            for key, figure in figures.items()
            if tested and figure.p is not None and math.isfinite(figure.p)
        }
        corrected = dict(zip(p, adjusted([*p.values()]).tolist(), strict=True))
        rows = []
        for key, figure in figures.items():
            facets: dict[str, str | float] = {"scale": scale}
            a, b, job = (*key, "", "", "")[:3]
            groups = [group for group in (a, b) if group] or [*self.people]
            applications = [one for one in self.applications if job in ("", one.occupation)]
            detail = {"smallest": figure.estimate.smallest_of(figure.fewest)}
            if key in p:
                detail |= {"p": p[key], "p_adjusted": corrected[key]}
            rows.append(
                Row(
                    metric,
                    **figure.estimate.columns,
                    dataset="hiring",
                    axis=self.task.axis.name,
                    group_a=a,
                    group_b=b,
                    facets={"occupation": job} | facets if job else facets,
                    split="test",
                    n=len(applications) * sum(len(self.people[group]) for group in groups),
                    seed=seed,
                    detail=detail,
                )
            )
        return rows
