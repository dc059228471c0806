"""Inference: how far from neutral a model strays, by group (Seshadri et al. 2022, Table 3a)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import Family, TemplateBank
from countergen_edit.metrics.classifier_tasks.base import (
    ClassifierTask,
    TaskText,
    TemplateRows,
    inputs,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import bootstrap_mean


def _slot(bank: TemplateBank) -> str:
    if bank.hypothesis is None:
        raise UserError("templates of task 'nli' need 'hypothesis': the slot a person takes there")
    return bank.hypothesis


class Inference(ClassifierTask):
    """Does P(neutral) differ between a hypothesis about one group and one about the other?

    Measured is the deviation from neutral, a minus b, by score (S-N) and by prediction (F-N).
    `bank.hypothesis` is the slot that a gendered word takes.
    """

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
        (a, b), slot = bank.pair, _slot(bank)
        people = len(bank.people[a]) + len(bank.people[b])
        rows = TemplateRows(bank, seed)
        for family in bank.families:
            for template in family.templates:
                texts = [*self.texts(bank, family, template)]
                premises = len(texts) // people
                asked = [one for i in range(premises) for one in texts[i::premises]]
                p = model.probabilities(*inputs(asked), progress="Classifying")
                is_neutral = p["neutral"] >= np.max(list(p.values()), axis=0)
                of = np.unique([one.filled.words[slot] for one in asked], return_inverse=True)[1]
                about_b = np.array([one.group == b for one in asked])
                for measure, values in (("S-N", p["neutral"]), ("F-N", is_neutral.astype(float))):
                    means = [
                        np.bincount(of[side], values[side]) / np.bincount(of[side])
                        for side in (~about_b, about_b)
                    ]
                    e = bootstrap_mean(means[0] - means[1], seed, measure, template)
                    rows.add(measure, e, family, template, dataset=family.name, n=len(of))
            sizes = {"used": len(asked)}
            if whole := bank.sizes.get("instances"):
                sizes["whole"] = whole
            for measure in ("S-N", "F-N"):
                published = dict(bank.published.get(measure, {}))
                rows.spread(measure, family.name, published=published, **sizes)
        return rows
