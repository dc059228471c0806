"""Inference: how far from neutral a model strays, by group (Seshadri et al. 2022, Table 3a)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import Family, TemplateBank
from countergen_edit.metrics.classifier_tasks.base import ClassifierTask, TaskText, TemplateRows
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
        rows, (_, b), slot = TemplateRows(bank, seed), bank.pair, _slot(bank)
        people = sum(map(len, bank.people.values()))
        for family in bank.families:
            for template in family.templates:
                texts = [*self.texts(bank, family, template)]
                premises = len(texts) // people
                asked = [one for i in range(premises) for one in texts[i::premises]]
                p = model.probabilities(*self.inputs(asked), progress="Classifying")
                is_neutral = p["neutral"] >= np.max([*p.values()], axis=0)
                word = np.unique([one.filled.words[slot] for one in asked], return_inverse=True)[1]
                is_b = np.array([one.group == b for one in asked])
                for measure, values in (("S-N", p["neutral"]), ("F-N", is_neutral)):
                    a_mean, b_mean = (
                        np.bincount(word[side], values[side]) / np.bincount(word[side])
                        for side in (~is_b, is_b)
                    )
                    e = bootstrap_mean(a_mean - b_mean, seed, measure, template)
                    rows.add(measure, e, family, template, dataset=family.name, n=len(asked))
            sizes = {"used": len(asked)}
            if "instances" in bank.sizes:
                sizes["whole"] = bank.sizes["instances"]
            for measure in ("S-N", "F-N"):
                published = dict(bank.published.get(measure, {}))
                rows.spread(measure, family.name, published=published, **sizes)
        return rows
