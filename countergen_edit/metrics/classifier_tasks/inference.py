"""Inference: how far from neutral a model strays, by group (Seshadri et al. 2022, Table 3a)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool

from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import Family, TemplateBank
from countergen_edit.metrics.classifier_tasks.base import (
    ClassifierTask,
    Scores,
    TaskText,
    TemplateRows,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import bootstrap_mean


def nli_rows(
    bank: TemplateBank,
    neutral: Callable[[Sequence[str], Sequence[str]], tuple[Scores, Bool[np.ndarray, " text"]]],
    seed: int,
) -> list[Row]:
    """Deviation from neutral, a minus b, by score (S-N) and by prediction (F-N) (Table 3a).

    `neutral` maps premises and hypotheses to P(neutral) and whether neutral is predicted;
    `bank.hypothesis` is the slot that a gendered word takes.
    """
    groups, slot = bank.pair, _slot(bank)
    rows = TemplateRows(bank, seed)
    for family in bank.families:
        values: dict[str, list[float]] = {"S-N": [], "F-N": []}
        used: dict[str, int] = {}
        for text in family.templates:
            premises, hypotheses, subject, side = [], [], [], []
            claims = [
                (s, {h.beside(slot): h.text for h in bank.fill(text, group, i, role=slot)})
                for s, group in enumerate(groups)
                for i in range(len(bank.people[group]))
            ]
            for filled in bank.fill(text):
                for s, by_words in claims:
                    premises.append(filled.text)
                    hypotheses.append(by_words[filled.beside(slot)])
                    subject.append(filled.words[slot])
                    side.append(s)
            used[text] = len(premises)
            score, predicted = neutral(premises, hypotheses)
            of = np.unique(subject, return_inverse=True)[1]
            sides = np.array(side)
            for measure, value in (("S-N", score), ("F-N", predicted.astype(np.float64))):
                means = [
                    np.bincount(of[sides == s], value[sides == s]) / np.bincount(of[sides == s])
                    for s in (0, 1)
                ]
                e = bootstrap_mean(means[0] - means[1], seed, measure, text)
                added = rows.add(measure, e, family, text, dataset=family.name, n=len(of))
                values[measure].append(added)
        for measure, of_templates in values.items():
            published = dict(bank.published.get(measure, {}))
            about: dict[str, Any] = {"published": published, "used": used[family.original]}
            if whole := bank.sizes.get("instances"):
                about["whole"] = whole
            rows.spread(measure, family.name, of_templates, **about)
    return rows


def _slot(bank: TemplateBank) -> str:
    if bank.hypothesis is None:
        raise UserError("templates of task 'nli' need 'hypothesis': the slot a person takes there")
    return bank.hypothesis


class Inference(ClassifierTask):
    """Does P(neutral) differ between a hypothesis about one group and one about the other?"""

    labels_of: ClassVar[str] = "nli"

    def texts(self, bank: TemplateBank, family: Family, template: str) -> Iterator[TaskText]:
        slot = _slot(bank)
        premises = [(f, f"{template} {f.beside('')}") for f in bank.fill(template)]
        for group in bank.pair:
            for i, person in enumerate(bank.people[group]):
                claims = {h.beside(slot): h.text for h in bank.fill(template, group, i, role=slot)}
                for premise, context in premises:
                    about = group, person["base"], i, context, family.name
                    yield TaskText(premise, *about, claims[premise.beside(slot)])

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:

        def neutral(
            premises: Sequence[str], hypotheses: Sequence[str]
        ) -> tuple[Scores, Bool[np.ndarray, " text"]]:
            p = model.probabilities(premises, hypotheses, progress="Classifying")
            return p["neutral"], p["neutral"] >= np.max(list(p.values()), axis=0)

        return nli_rows(bank, neutral, seed)
