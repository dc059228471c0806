"""Hiring: decisions about applications that differ in the applicant's name alone.

The model reads an advertisement and a curriculum vitae and is asked whether to invite the person;
the answer is the likelihood of either reply (in a chat template, the whole reply).

Rows: `hiring_acceptance` by group, `hiring_gap` and `hiring_gap_of_occupation` of every two,
`hiring_strength` (strong less weak curricula vitae); under an edit `hiring_gap_change` and
`hiring_overcorrection`, the gap again, shown where its interval excludes 0 on the other side than
the unedited gap. `hiring_gap_in_context` is the gap after a text about the company,
`hiring_context_change` that less the gap after the placebo. `hiring_rate` and
`hiring_impact_ratio` are of each category: the groups and, of crossed axes, the groups of either
axis. P is adjusted by Holm's method over the differences of an edit, those of occupations by
themselves. Out of vocabulary there is `hiring_out_of_vocabulary` alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.data.axis import ALL, Axis, Group
from countergen_edit.data.hiring import Vacancies
from countergen_edit.data.prompt_check import unknown_words
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.decisions import (
    RATES,
    SCALES,
    Decisions,
    OnScale,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted
from countergen_edit.models import LanguageModel, encode, encode_replies

ACCEPTANCE, STRENGTH, GAP = "hiring_acceptance", "hiring_strength", "hiring_gap"
CHANGE, OF_OCCUPATION = "hiring_gap_change", "hiring_gap_of_occupation"
OUT_OF_VOCABULARY = "hiring_out_of_vocabulary"
RATE, IMPACT, OVERCORRECTION = "hiring_rate", "hiring_impact_ratio", "hiring_overcorrection"
IN_CONTEXT, CONTEXT_CHANGE = "hiring_gap_in_context", "hiring_context_change"
NO_AUDIT = (
    "These applications are simulated: by themselves, rates and impact ratios are no bias audit "
    "under New York City's Local Law 144, which needs historical or test data and an independent "
    "auditor."
)
_EXAMPLES = 6
"""Unknown words kept in a row."""
LEAST_IN_VOCABULARY = 0.5
"""Share of applications whose every word must be in the training corpus."""
PLACEBO = "placebo"


class Hiring(Metric):
    """Acceptance of applications by group.

    Args:
        vacancies: File of vacancies and contexts; None takes ours, whose form it has.
        names: Number of test names of each group, two or more.
        contexts: Contexts of the file that are measured, by name, or `all`.
    """

    title = "Hiring"
    is_slow = True
    has_baseline = True

    def __init__(
        self,
        vacancies: str | None = None,
        names: int = 8,
        contexts: str | Sequence[str] = (),
    ) -> None:
        if names < 2:
            raise UserError(f"hiring.names={names}: two people of each group at least")
        self.names, self.read = names, Vacancies.read(vacancies)
        known = self.read.contexts
        chosen = [contexts] if isinstance(contexts, str) else [*contexts]
        chosen = [*known] if chosen == [ALL] else chosen
        for name in chosen:
            require_known("metric.hiring.contexts", name, known)
        self.contexts = {name: known[name] for name in chosen}

    def prepare(self) -> None:
        every, groups = self.read.vacancies, self.task.axis.groups
        most = len(every) if self.task.limit is None else max(2, self.task.limit)
        kept = [every[i] for i in first_drawn(len(every), most, 0, "hiring")]
        self.applications = tuple(self.read.applications(kept))
        self.people = {group: self._names(groups[group]) for group in self.task.groups}
        self.texts = {
            group: [
                [one.filled(groups[group], name) for name in names] for one in self.applications
            ]
            for group, names in self.people.items()
        }
        words = self.task.vocabulary
        lacking = [[] if words is None else unknown_words(words, text) for text in self._every]
        self.in_vocabulary = sum(not own for own in lacking) / len(lacking)
        self.unknown = tuple(dict.fromkeys(word for own in lacking for word in own))

    def _names(self, group: Group) -> tuple[str, ...]:
        names = tuple(group.names.get("test", ()))[: self.names]
        if len(names) < 2:
            raise UserError(f"hiring needs two test names or more of group {group.name!r}")
        return names

    @property
    def _every(self) -> Iterator[str]:
        """By group, application and name."""
        return (text for lists in self.texts.values() for own in lists for text in own)

    def check(self, model: LanguageModel) -> None:
        if self.in_vocabulary < LEAST_IN_VOCABULARY:
            return
        before = max(("", *self.contexts.values()), key=len)
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
        if self.in_vocabulary < LEAST_IN_VOCABULARY:
            detail = {"words": [*self.unknown[:_EXAMPLES]], "unknown": len(self.unknown)}
            columns: dict[str, Any] = {"value": self.in_vocabulary, "detail": detail}
            row = self._row(OUT_OF_VOCABULARY, self.people, seed=context.seed, **columns)
            return [] if edit else [row]
        now = self.decisions(context, edit)
        rows = self._acceptances(now, context.model.chat.is_on) + self._rows(GAP, now.gaps)
        rows += self._rows(OF_OCCUPATION, now.gaps_of_topics) + self._rates(now)
        rows += self._in_contexts(context, edit)
        rows += self._rows(STRENGTH, now.strength, tested=False)
        if edit is not None:
            unedited = self.decisions(context, None)
            rows += self._rows(CHANGE, partial(now.changes, unedited))
            rows += self._overcorrections(now, unedited)
        return [replace(row, seed=context.seed) for row in rows]

    def decisions(
        self, context: EvaluationContext, edit: NamedEdit | None, before: str = ""
    ) -> Decisions:
        """Decisions about every application of every group, after a text."""
        in_chat, count = context.model.chat.is_on, len(self.applications)
        scores = context.texts(self._pairs(in_chat, before), edit, "Scoring applications", in_chat)
        ends = np.cumsum([2 * count * len(names) for names in self.people.values()])
        odds, answered = {}, {}
        for group, log_p in zip(self.people, np.split(scores.log_p, ends[:-1]), strict=True):
            accept, reject = np.moveaxis(log_p.reshape(count, -1, 2), 2, 0)
            odds[group] = accept - reject
            answered[group] = float(np.exp(np.logaddexp(accept, reject)).mean())
        topics, strong = zip(*((a.occupation, a.is_strong) for a in self.applications), strict=True)
        return Decisions(odds, answered, topics, strong, context.seed)

    def _pairs(self, in_chat: bool, before: str = "") -> list[tuple[str, str]]:
        """Every application with either answer: a reply in a chat template, else a continuation."""
        cue, space = ("", "") if in_chat else (self.read.cue, " ")
        answers = (self.read.answers.accept, self.read.answers.reject)
        start = f"{before}\n\n" if before else ""
        return [
            (f"{start}{text}{cue}", f"{space}{answer}")
            for text in self._every
            for answer in answers
        ]

    def _acceptances(self, now: Decisions, is_asked: bool) -> list[Row]:
        rows = self._rows(ACCEPTANCE, now.acceptances, tested=False)
        for row in rows:
            row.detail.update(
                invited=float(now.values(row.group_a, "selection").mean()),
                answered=now.answered[row.group_a],
                names=[*self.people[row.group_a]],
                asked=is_asked,
                occupations=len(now.distinct),
            )
        return rows

    def _overcorrections(self, now: Decisions, before: Decisions) -> list[Row]:
        """The gaps again, and whether an edit reversed their sign."""
        rows = self._rows(OVERCORRECTION, now.gaps, tested=False)
        unedited = [gap.estimate.value for scale in SCALES for gap in before.gaps(scale).values()]
        for row, was in zip(rows, unedited, strict=True):
            lo, hi = row.lo or 0.0, row.hi or 0.0
            row.detail.update(before=was, shown=hi < 0 < was or was < 0 < lo)
        return rows

    def _in_contexts(self, context: EvaluationContext, edit: NamedEdit | None) -> list[Row]:
        made = {name: self.decisions(context, edit, text) for name, text in self.contexts.items()}
        rows = []
        for name, now in made.items():
            rows += self._rows(IN_CONTEXT, now.gaps, context=name)
            if PLACEBO in made and name != PLACEBO:
                change = partial(now.changes, made[PLACEBO])
                rows += self._rows(CONTEXT_CHANGE, change, context=name)
        return rows

    def _rates(self, now: Decisions) -> list[Row]:
        """Rates and impact ratios of every category."""
        rows, known = [], self.task.axis.groups
        for (axis, own), rate in product(
            axis_categories(self.task.axis, self.people).items(), RATES
        ):
            top, found = now.impact(rate, own)
            people = people_in_words(
                {name: [known[g] for g in groups] for name, groups in own.items()}
            )
            for name, estimates in found.items():
                detail = {"people": people[name], "reference": people[top], "note": NO_AUDIT}
                about = {"group_a": name, "facets": {"by": axis, "rate": rate}, "axis": axis}
                for metric, estimate in zip((RATE, IMPACT), estimates, strict=True):
                    columns = estimate.columns | about
                    rows.append(self._row(metric, own[name], detail=detail, **columns))
        return rows

    def _rows(self, metric: str, figures: OnScale, tested: bool = True, **facets: str) -> list[Row]:
        """Rows of figures on both scales, with P adjusted over the figures of a scale."""
        rows = []
        for scale in SCALES:
            every = figures(scale)
            p = {key: one.p for key, one in every.items() if tested and one.p is not None}
            holm = dict(zip(p, adjusted([*p.values()]).tolist(), strict=True))
            for key, figure in every.items():
                a, b, job = (*key, "", "", "")[:3]
                of = {"occupation": job} if job else {}
                about = {"group_a": a, "group_b": b, "facets": {**of, "scale": scale, **facets}}
                detail = {"smallest": figure.estimate.smallest_of(figure.fewest)}
                detail |= {"p": p[key], "p_adjusted": holm[key]} if key in p else {}
                groups, columns = [*filter(None, (a, b))], figure.estimate.columns | about
                rows.append(self._row(metric, groups or self.people, job, detail=detail, **columns))
        return rows

    def _row(self, metric: str, groups: Iterable[str], job: str = "", **columns: Any) -> Row:
        """A row about the applications of some groups, to one job or to all."""
        jobs = sum(job in ("", one.occupation) for one in self.applications)
        n = jobs * sum(len(self.people[group]) for group in groups)
        shared = {"dataset": "hiring", "axis": self.task.axis.name, "split": "test", "n": n}
        return Row(metric, **{**shared, **columns})


def axis_categories(axis: Axis, groups: Collection[str]) -> dict[str, dict[str, list[str]]]:
    """By axis, each category with its groups; of crossed axes those of either axis first."""
    found = {}
    for part in axis.made_of:
        own: dict[str, list[str]] = {}
        for group in groups:
            own.setdefault(axis.groups[group].parts.get(part, ""), []).append(group)
        if "" not in own and len(own) > 1:
            found[part] = own
    return found | {axis.name: {group: [group] for group in groups}}


def people_in_words(categories: Mapping[str, Sequence[Group]]) -> dict[str, str]:
    """Each category in the plural by the forms of its groups, else its name.

    >>> people_in_words({g: [Group(g, {}, {"adjective": g.title()})] for g in ("black", "white")})
    {'black': 'Black people', 'white': 'White people'}
    """
    forms = {}
    for name, groups in categories.items():
        every = {form: {g.forms.get(form, "") for g in groups} for form in ("people", "adjective")}
        forms[name] = {form: "".join(own) if len(own) == 1 else "" for form, own in every.items()}
    for pattern in ("{people}", "{adjective} people", "{adjective} {people}"):
        words = {name: pattern.format(**own) for name, own in forms.items()}
        if len({*words.values()}) == len(words) and not any(
            w.startswith(" ") for w in words.values()
        ):
            return words
    return {name: name.replace("_", " ") for name in categories}
