"""Inference: how far from neutral a model strays, by group (Seshadri et al. 2022, Table 3a)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.metrics.classifier_tasks.base import ClassifierTask, TemplateRows
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import bootstrap_mean


class Inference(ClassifierTask):
    """Does P(neutral) differ between a hypothesis about one group and one about the other?

    Measured is the deviation from neutral, a minus b, by score (S-N) and by prediction (F-N).
    `bank.hypothesis` is the slot that a gendered word takes.
    """

    labels_of: ClassVar[str] = "nli"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        slot, (_, b) = bank.hypothesis, bank.pair
        if slot is None:
            raise UserError(
                "templates of task 'nli' need 'hypothesis': the slot a person takes there"
            )
        rows = TemplateRows(bank, seed)
        people = [(group, i) for group in bank.pair for i in range(len(bank.people[group]))]
        for family in bank.families:
            for template in family.templates:
                claims = [
                    {h.beside(slot): h.text for h in bank.fill(template, *person, role=slot)}
                    for person in people
                ]
                premises = [*bank.fill(template)]
                asked = [premise.text for premise in premises for _ in people]
                hypotheses = [
                    claim[premise.beside(slot)] for premise in premises for claim in claims
                ]
                p = model.probabilities(asked, hypotheses, progress="Classifying")
                is_neutral = p["neutral"] >= np.max([*p.values()], axis=0)
                words = np.repeat([premise.words[slot] for premise in premises], len(people))
                word = np.unique(words, return_inverse=True)[1]
                is_b = np.array([group == b for _ in premises for group, _ in people])
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
