"""Hiring: acceptance of applications that differ in the applicant's name alone.

The model reads an advertisement and a curriculum vitae and is asked whether to invite the person;
the answer is the likelihood of either reply (in a chat template, the whole reply). Applicants of
each group differ in names, and in pronouns where the axis has them. Rows: `hiring_acceptance` by
group, `hiring_gap` and `hiring_gap_of_occupation` of every two, `hiring_strength` (strong less weak
curricula vitae), `hiring_gap_change` under an edit; P by Holm's method over the differences of an
edit, those of occupations by themselves. Out of vocabulary: `hiring_out_of_vocabulary` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.data.hiring import Vacancies
from countergen_edit.data.prompt_check import unknown_words
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.hiring.decisions import (
    ACCEPTANCE,
    CHANGE,
    EXAMPLES,
    GAP,
    OF_OCCUPATION,
    OUT_OF_VOCABULARY,
    SCALES,
    STRENGTH,
    Decisions,
    Figure,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted
from countergen_edit.models import LanguageModel, Workload, encode, encode_replies

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
        self.vacancies = vacancies
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

    def workload(self) -> Workload:
        return Workload(scored=tuple(self._pairs(False))) if self._is_in_vocabulary else Workload()

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        if split != "test":
            return []
        if not self._is_in_vocabulary:
            words = {"words": [*self.unknown[:EXAMPLES]], "unknown": len(self.unknown)}
            n = len(self.applications) * sum(map(len, self.people.values()))
            about = {"dataset": "hiring", "axis": self.task.axis.name, "split": split}
            row = Row(
                OUT_OF_VOCABULARY,
                self.in_vocabulary,
                **about,
                n=n,
                seed=context.seed,
                detail=words,
            )
            return [row] if edit is None else []
        now = self.decisions(context, edit)
        rows = self._acceptances(now, context.model.chat.is_on)
        rows += [*self._gaps(now), *self._of_occupations(now)]
        rows += [self._row(STRENGTH, now.strength(s), now.seed, scale=s) for s in SCALES]
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
            detail = {
                "invited": now.invited(group),
                "answered": now.answered(group),
                "names": [*self.people[group]],
                "asked": is_asked,
                "occupations": len(now.occupations),
            }
            figure = now.acceptance(group, scale)
            rows.append(self._row(ACCEPTANCE, figure, now.seed, group, scale=scale, **detail))
        return rows

    def _gaps(self, now: Decisions, before: Decisions | None = None) -> list[Row]:
        """Differences between groups, or their changes, tested together on each scale."""
        rows: list[Row] = []
        for scale in SCALES:
            figures = {pair: now.gap(*pair, scale) for pair in combinations(now.groups, 2)}
            if before is not None:
                figures = {p: one.less(before.gap(*p, scale)) for p, one in figures.items()}
            metric = GAP if before is None else CHANGE
            own = [self._row(metric, x, now.seed, *p, scale=scale) for p, x in figures.items()]
            rows += _tested(own, [*figures.values()])
        return rows

    def _of_occupations(self, now: Decisions) -> list[Row]:
        rows: list[Row] = []
        for scale in SCALES:
            about = [
                (*pair, job) for pair in combinations(now.groups, 2) for job in now.occupations
            ]
            figures = [now.gap_of(job, a, b, scale) for a, b, job in about]
            own = [
                self._row(OF_OCCUPATION, figure, now.seed, *of, scale=scale)
                for of, figure in zip(about, figures, strict=True)
            ]
            rows += _tested(own, figures)
        return rows

    def _row(
        self,
        metric: str,
        figure: Figure,
        seed: int,
        a: str = "",
        b: str = "",
        occupation: str = "",
        *,
        scale: str,
        **detail: Any,
    ) -> Row:
        applications = [x for x in self.applications if occupation in ("", x.occupation)]
        people = sum(len(self.people[group]) for group in ([g for g in (a, b) if g] or self.people))
        return Row(
            metric,
            **figure.estimate.columns,
            dataset="hiring",
            axis=self.task.axis.name,
            group_a=a,
            group_b=b,
            facets=({"occupation": occupation} if occupation else {}) | {"scale": scale},
            split="test",
            n=len(applications) * people,
            seed=seed,
            detail={"smallest": figure.estimate.smallest_of(figure.fewest), **detail},
        )


def _tested(rows: Sequence[Row], figures: Sequence[Figure]) -> Sequence[Row]:
    """Rows with P, adjusted over them."""
    tested = [
        (row, p) for row, p in zip(rows, [x.p for x in figures], strict=True) if p is not None
    ]
    corrected = adjusted([p for _, p in tested]).tolist()
    for (row, p), own in zip(tested, corrected, strict=True):
        row.detail.update(p=p, p_adjusted=own)
    return rows
