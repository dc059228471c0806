"""The metric: applications of every group are scored, and become rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.data.axis import ALL
from countergen_edit.data.hiring import Vacancies
from countergen_edit.data.prompt_check import unknown_words
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.hiring.decisions import (
    Decisions,
    Gaps,
    Scale,
    changes,
    cross_fitted,
)
from countergen_edit.metrics.hiring.rows import (
    CHANGE,
    CONTEXT_CHANGE,
    GAP,
    IN_CONTEXT,
    PROMPTED,
    HiringRows,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, encode, encode_replies

NAMES = 8
LEAST_IN_VOCABULARY = 0.5
"""Share of applications whose every word must be in the training corpus."""
PLACEBO = "placebo"


class Hiring(Metric):
    """Acceptance of applications by group.

    Args:
        vacancies: A file in the form of ours; None takes ours.
        names: Number of test names of each group, two or more, or group → names.
        contexts, prompts: Those of the file that are measured, by name, or `all`.
    """

    title = "Hiring"
    is_slow = True
    has_baseline = True

    def __init__(
        self,
        vacancies: str | None = None,
        names: int | Mapping[str, Sequence[str]] = NAMES,
        contexts: str | Sequence[str] = (),
        prompts: str | Sequence[str] = (),
    ) -> None:
        self.names = names
        fewest = names if isinstance(names, int) else min(map(len, names.values()), default=0)
        if fewest < 2:
            raise UserError(f"hiring.names={names}: two people of each group at least")
        self.read = Vacancies.read(vacancies)
        self.contexts = _named("contexts", contexts, self.read.contexts)
        self.prompts = _named("prompts", prompts, self.read.prompts)

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
        before = max(("", *self.contexts.values(), *self.prompts.values()), key=len)
        longest = sorted(self._pairs(model.chat.is_on, before), key=lambda p: len(p[0]))[-4:]
        if model.chat.is_on:
            encode_replies(model, *zip(*longest, strict=True))
        else:
            encode(model, [question + answer for question, answer in longest])

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        if split != "test":
            return []
        make = HiringRows(self.task.axis, self.applications, self.people, context.seed)
        if not self._is_in_vocabulary:
            row = make.out_of_vocabulary(self.in_vocabulary, self.unknown)
            return [row] if edit is None else []
        now = self.decisions(context, edit)
        rows = make.acceptances(now, context.model.chat.is_on) + make.of_gaps(GAP, now.gaps)
        rows += make.of_occupations(now) + make.rates(now)
        rows += self._in_contexts(make, context, edit) + make.strengths(now)
        if edit is None:
            return rows + self._prompted(make, context)
        unedited = self.decisions(context, None)
        rows += make.of_gaps(CHANGE, partial(changes, now, unedited))
        return rows + make.overcorrections(now, unedited)

    def decisions(
        self, context: EvaluationContext, edit: NamedEdit | None, before: str = ""
    ) -> Decisions:
        """Log P of either answer to every application of every group, after a text."""
        in_chat = context.model.chat.is_on
        scores = context.texts(self._pairs(in_chat, before), edit, "Scoring applications", in_chat)
        count, accept, reject = len(self.applications), {}, {}
        ends = np.cumsum([2 * count * len(names) for names in self.people.values()])
        for group, log_p in zip(self.people, np.split(scores.log_p, ends[:-1]), strict=True):
            own = log_p.reshape(count, -1, 2)
            accept[group], reject[group] = own[:, :, 0], own[:, :, 1]
        return Decisions(self.applications, accept, reject, context.seed)

    @property
    def _is_in_vocabulary(self) -> bool:
        return self.in_vocabulary >= LEAST_IN_VOCABULARY

    def _pairs(self, in_chat: bool, before: str = "") -> list[tuple[str, str]]:
        """Every application with either answer: a reply in a chat template, else a continuation."""
        cue, space = ("", "") if in_chat else (self.read.cue, " ")
        answers = (self.read.answers.accept, self.read.answers.reject)
        start = f"{before}\n\n" if before else ""
        texts = (start + text for lists in self.texts.values() for own in lists for text in own)
        return [(f"{text}{cue}", f"{space}{answer}") for text in texts for answer in answers]

    def _in_contexts(
        self, make: HiringRows, context: EvaluationContext, edit: NamedEdit | None
    ) -> list[Row]:
        made = {name: self.decisions(context, edit, text) for name, text in self.contexts.items()}
        rows = []
        for name, now in made.items():
            rows += make.of_gaps(IN_CONTEXT, now.gaps, context=name)
            if PLACEBO in made and name != PLACEBO:
                change = partial(changes, now, made[PLACEBO])
                rows += make.of_gaps(CONTEXT_CHANGE, change, context=name)
        return rows

    def _prompted(self, make: HiringRows, context: EvaluationContext) -> list[Row]:
        each = {name: self.decisions(context, None, text) for name, text in self.prompts.items()}
        if not each:
            return []
        best, selected = cross_fitted(each)

        def means(scale: Scale) -> Gaps:
            every = [one.gaps(scale) for one in each.values()]
            return {
                pair: replace(gap, draws=np.mean([own[pair].draws for own in every], axis=0))
                for pair, gap in every[0].items()
            }

        asked = {name: one.gaps for name, one in each.items()} | {"mean": means, "best": best.gaps}
        rows = []
        for name, gaps in asked.items():
            rows += make.of_gaps(PROMPTED, gaps, prompts=name)
        for row in rows:
            row.detail["selected"] = [*selected]
        return rows


def _named(kind: str, chosen: str | Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """The chosen texts of a file; `UserError` for an unknown name."""
    names = [*known] if chosen == ALL else [chosen] if isinstance(chosen, str) else [*chosen]
    for name in names:
        require_known(f"metric.hiring.{kind}", name, known)
    return {name: known[name] for name in names}
