"""Decisions about cases that differ in the person alone, or that were taken.

A model reads a case and a question and chooses between answers: by the likelihood of each, in a
chat template of the whole reply. Where the question lists the answers, it is asked with the list in
either order.

Rows: `decision_rate` by group, `decision_difference` of every two, of one topic
`decision_difference_of_topic`, and its absolute value `decision_gap`, which a gate can hold to a
limit; `decision_by_label`, cases with a favourable right answer less the others, and
`decision_by_order`, answers in reverse less in the given order. Under an edit `decision_change` of
a difference, overcorrected where the interval of the difference excludes 0 on the other side than
the unedited one. `decision_in_context` is the difference after a text,
`decision_context_change` that less the difference after the placebo. `decision_selection_rate`,
`decision_scoring_rate`, `decision_impact_ratio` and `decision_scoring_ratio` are of each category:
the groups and, of crossed axes, the groups of either axis. P is adjusted by Holm's method over the
differences of a kind and file. Out of vocabulary there is `decision_out_of_vocabulary` alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.data.axis import ALL, Axis, Group
from countergen_edit.data.cases import CASE_FILES, Case, read_cases, read_taken
from countergen_edit.data.prompt_check import unknown_words
from countergen_edit.data.subsets import first_drawn
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import MeasuredSplit, Metric, Way
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.decisions.figures import DecisionFigures, DecisionTable, Scale
from countergen_edit.metrics.in_vocabulary import EXAMPLES
from countergen_edit.metrics.rows import Row, with_holm
from countergen_edit.models import LanguageModel, encode, encode_replies

GROUP_RATE, RATE_DIFFERENCE, GAP = "decision_rate", "decision_difference", "decision_gap"
OF_TOPIC, CHANGE = "decision_difference_of_topic", "decision_change"
BY_LABEL, BY_ORDER = "decision_by_label", "decision_by_order"
IN_CONTEXT, CONTEXT_CHANGE = "decision_in_context", "decision_context_change"
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
PLACEBO = "placebo"


@dataclass(frozen=True)
class AskedCases:
    """The cases of a file, with the people that they are asked about."""

    name: str
    cases: tuple[Case, ...]
    people: tuple[tuple[Group, str], ...]

    @property
    def units(self) -> Iterator[tuple[Group, str, Case, int]]:
        """Every person with every case and order of its answers."""
        return (
            (*person, case, order)
            for person in self.people
            for case in self.cases
            for order in case.orders
        )

    def texts(self, context: str = "") -> list[str]:
        """The prompts of the units, after a context."""
        return [case.asked(group, name, order, context) for group, name, case, order in self.units]

    def pairs(self, in_chat: bool, context: str = "") -> list[tuple[str, str]]:
        """Every prompt with each answer: a reply in a chat template, else a continuation."""
        units = zip(self.texts(context), self.units, strict=True)
        return [
            (text, answer) if in_chat else (text + case.cue, f" {answer}")
            for text, (_, _, case, _) in units
            for answer in case.answers
        ]


@dataclass(frozen=True)
class DecisionRows:
    """Rows of one file of cases or decisions."""

    name: str
    axis: Axis
    table: DecisionTable
    note: str = ""

    def row(self, metric: str, groups: Collection[str], topic: str = "", **columns: Any) -> Row:
        shared: dict[str, Any] = {"dataset": self.name, "axis": self.axis.name, "split": "test"}
        shared |= {"seed": self.table.seed, "n": self.table.n(groups, topic)}
        return Row(metric, **{**shared, **columns})

    def of(
        self, metric: str, every: DecisionFigures, tested: bool = True, **facets: str
    ) -> list[Row]:
        """Rows of figures by group or groups and topic, with P adjusted over them."""
        rows = []
        for key, figure in every.items():
            a, b, topic = (*key, "", "", "")[:3]
            about: dict[str, Any] = {"group_a": a, "group_b": b}
            about["facets"] = {**({"topic": topic} if topic else {}), **facets}
            detail = {"smallest": figure.detectable, "p": figure.p if tested else None}
            columns = figure.estimate.columns | about
            rows.append(self.row(metric, [*filter(None, (a, b))], topic, detail=detail, **columns))
        return with_holm(rows, "p")

    @property
    def every(self) -> list[Row]:
        differences = self.of(RATE_DIFFERENCE, self.table.differences())
        for row in differences:
            found = self.table.null(row.group_a, row.group_b)
            row.detail.update(zip(("null", "null_p"), found or (None, None), strict=True))
        rows = self.of(GROUP_RATE, self.table.rates(), tested=False)
        rows += [*with_holm(differences, "null_p"), *map(absolute, differences)]
        rows += self.of(OF_TOPIC, self.table.differences_of_topics()) + self.of_categories()
        rows += self.of(BY_LABEL, self.table.contrast("label"), tested=False)
        return rows + self.of(BY_ORDER, self.table.contrast("order"), tested=False)

    def of_categories(self) -> list[Row]:
        """Rates and impact ratios of every category; scoring rates of scores alone."""
        rows = []
        for axis, own in axis_categories(self.axis, self.table.groups).items():
            for kind in [*RATES][: None if self.table.is_scored else 1]:
                top, found = self.table.impact(kind, own)
                for name, estimates in found.items():
                    about: dict[str, Any] = {"group_a": name, "facets": {"by": axis}, "axis": axis}
                    about["detail"] = {"reference": top, "note": self.note}
                    for metric, estimate in zip(RATES[kind], estimates, strict=True):
                        rows.append(self.row(metric, own[name], **estimate.columns, **about))
        return rows


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
    cases : str or sequence of str
        Files of cases: shipped ones by name, `all`, or CSV files of your own.
    names : int
        Number of test names of each group, two or more.
    contexts : str or sequence of str
        Contexts of the files that are measured, by name, or `all`.
    """

    title = "Decisions"
    is_slow = True
    has_baseline = True
    better: ClassVar[Mapping[str, Way]] = {IMPACT: "higher", GAP: "lower"}

    def __init__(
        self,
        cases: str | Sequence[str] = "hiring",
        names: int = 8,
        contexts: str | Sequence[str] = (),
    ) -> None:
        if names < 2:
            raise UserError(f"decisions.names={names}: two people of each group at least")
        files = [cases] if isinstance(cases, str) else [*cases]
        files = [*CASE_FILES] if files == [ALL] else files
        if not files:
            raise UserError("decisions.cases is empty: name at least one file of cases")
        self.names = names
        self.files = {Path(name).stem: read_cases(name) for name in files}
        known = {name for own in self.files.values() for case in own for name in case.contexts}
        self.contexts = [contexts] if isinstance(contexts, str) else [*contexts]
        self.contexts = sorted(known) if self.contexts == [ALL] else self.contexts
        for name in self.contexts:
            require_known("metric.decisions.contexts", name, sorted(known))

    def prepare(self) -> None:
        people = [
            (group, name)
            for group in (self.task.axis.groups[name] for name in self.task.groups)
            for name in self._names(group)
        ]
        self.asked, self.unknown = list[AskedCases](), dict[str, list[str]]()
        for name, every in self.files.items():
            topics = [*dict.fromkeys(case.topic for case in every)]
            most = len(topics) if self.task.limit is None else max(2, self.task.limit)
            kept = {topics[i] for i in first_drawn(len(topics), most, 0, "decisions")}
            cases = tuple(case for case in every if case.topic in kept)
            self.asked.append(AskedCases(name, cases, tuple(people)))
            if (words := self.task.vocabulary) is not None:
                lacking = [unknown_words(words, text) for text in self.asked[-1].texts()]
                if sum(not own for own in lacking) < LEAST_IN_VOCABULARY * len(lacking):
                    self.unknown[name] = [*dict.fromkeys(word for own in lacking for word in own)]

    def _names(self, group: Group) -> tuple[str, ...]:
        names = tuple(group.names.get("test", ()))[: self.names]
        if len(names) < 2:
            raise UserError(f"decisions need two test names or more of group {group.name!r}")
        return names

    def check(self, model: LanguageModel) -> None:
        for own in (own for own in self.asked if own.name not in self.unknown):
            every = (p for c in ("", *self.contexts) for p in own.pairs(model.chat.is_on, c))
            longest = sorted(every, key=lambda pair: len(pair[0]))[-4:]
            if model.chat.is_on:
                encode_replies(model, *zip(*longest, strict=True))
            else:
                encode(model, [question + answer for question, answer in longest])

    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        if split != "test":
            return []
        return [row for own in self.asked for row in self._rows(own, context, edit)]

    def _rows(
        self, own: AskedCases, context: EvaluationContext, edit: NamedEdit | None
    ) -> list[Row]:
        if words := self.unknown.get(own.name):
            about: Any = {"dataset": own.name, "axis": self.task.axis.name, "split": "test"}
            detail = {"words": words[:EXAMPLES], "unknown": len(words)}
            row = Row(OUT_OF_CASES, float(len(words)), seed=context.seed, detail=detail, **about)
            return [] if edit else [row]

        def made(edit: NamedEdit | None, before: str = "") -> DecisionRows:
            table = self.table(own, context, edit, before)
            return DecisionRows(own.name, self.task.axis, table, NO_AUDIT)

        now, rows = made(edit), list[Row]()
        for row in now.every:
            if row.metric == GROUP_RATE:
                table = now.table.decisions[now.table.decisions["group"] == row.group_a]
                answered, people = float(table["answered"].mean()), [*table["person"].unique()]
                row.detail.update(answered=answered, names=people)
            rows.append(row)
        contexts = {
            name: made(edit, name) for name in self.contexts if name in own.cases[0].contexts
        }
        for name, after in contexts.items():
            rows += after.of(IN_CONTEXT, after.table.differences(), context=name)
            if PLACEBO in contexts and name != PLACEBO:
                changes = after.table.changes(contexts[PLACEBO].table)
                rows += after.of(CONTEXT_CHANGE, changes, context=name)
        if edit is not None:
            before = made(None).table
            for row in now.of(CHANGE, now.table.changes(before)):
                was, is_now = (
                    t.differences()[row.group_a, row.group_b] for t in (before, now.table)
                )
                lo, hi = is_now.estimate.lo, is_now.estimate.hi
                row.detail["overcorrected"] = hi < 0 < was.value or was.value < 0 < lo
                rows.append(row)
        return rows

    def table(
        self, own: AskedCases, context: EvaluationContext, edit: NamedEdit | None, before: str = ""
    ) -> DecisionTable:
        """Decisions about every case, after a context; `answered` is P of all answers together."""
        in_chat = context.model.chat.is_on
        scores = context.texts(own.pairs(in_chat, before), edit, "Scoring cases", in_chat)
        sizes = [len(case.answers) for _, _, case, _ in own.units]
        starts = np.cumsum([0, *sizes[:-1]])
        total = np.logaddexp.reduceat(scores.log_p, starts)
        worth = np.concatenate([[*case.answers.values()] for _, _, case, _ in own.units])
        shares = np.exp(scores.log_p - np.repeat(total, sizes)) * worth
        facts = [(g.name, name, case.topic, case.label, o) for g, name, case, o in own.units]
        table = pd.DataFrame(facts, columns=["group", "person", "topic", "label", "order"])
        table["worth"], table["answered"] = np.add.reduceat(shares, starts), np.exp(total)
        prompts = Counter(case.topic for case in own.cases for _ in case.orders)
        table["weight"] = 1 / table["topic"].map(prompts)
        return DecisionTable(table, context.seed, own.name)


def taken_rows(path: Path, seed: int = 0) -> list[Row]:
    """The rows of a CSV file of decisions that were taken."""
    axis, decisions = read_taken(path)
    table = DecisionTable(decisions.assign(weight=1.0, order=0), seed, path.stem)
    return DecisionRows(path.stem, axis, table).every


def axis_categories(axis: Axis, groups: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """By axis, each category with its groups; of crossed axes those of either axis first."""
    found, every = {}, [*groups]
    for part in axis.made_of:
        own: dict[str, list[str]] = {}
        for group in every:
            own.setdefault(axis.groups[group].parts.get(part, ""), []).append(group)
        if "" not in own and len(own) > 1:
            found[part] = own
    return found | {axis.name: {group: [group] for group in every}}
