"""Masked models: with which group traits are associated (Kurita et al. 2019; Seshadri et al. 2022,
Table 3b).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from countergen_edit.data.template_bank import Filled, TemplateBank
from countergen_edit.metrics.classifier_tasks.base import ClassifierTask, TaskText, TemplateRows
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import bootstrap_mean
from countergen_edit.models.masked import MaskedText, load_masked, masked_from_objects

ROUNDING = 3
"""Decimals of a bias score, in nats; the rest is rounding of models in single precision."""


def _masked_text(filled: Filled) -> MaskedText:
    return MaskedText(filled.text, filled.spans["person"], filled.spans["attribute"])


class Association(ClassifierTask):
    """Are traits associated with one group rather than the other? TaskText of a masked model."""

    labels_of: ClassVar[str] = "masked"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """Percentage of traits associated with group b rather than a, the paper's male (Table 3b).

        A trait's score is log p(b | trait) - log p(b) less the same of a (Kurita et al. 2019),
        averaged over pairs of targets.
        """
        people, kinds = len(bank.people[bank.pair[0]]), bank.kinds.get("attribute", {})
        rows = TemplateRows(bank, seed)
        for family in bank.families:
            used: dict[str, int] = {}
            for text in family.templates:
                filled = [one.filled for one in self.texts(bank, family, text)]
                scores = model.associations([_masked_text(one) for one in filled])
                a, b = scores.reshape(2, people, -1).mean(axis=1)
                bias, traits = b - a, [one.words["attribute"] for one in filled[: len(a)]]
                for kind in dict.fromkeys(kinds.values()):
                    own = np.array([kinds[trait] == kind for trait in traits])
                    used[kind] = int(own.sum())
                    # A trait without any association, but for rounding, is half of each.
                    share = 50.0 * (1.0 + np.sign(np.round(bias[own], ROUNDING)))
                    e = bootstrap_mean(share, seed, kind, text, whole=100)
                    of: dict[str, Any] = {"dataset": kind, "n": used[kind]}
                    of["mean_score"] = float(bias[own].mean())
                    rows.add("b_associations", e, family, text, **of)
            for kind, n in used.items():
                sizes = {"used": n, "whole": bank.sizes.get(kind, n)}
                published = dict(bank.published.get(kind, {}))
                rows.spread("b_associations", kind, published=published, **sizes)
        return rows

    def encoded(
        self, model: Any, asked: Sequence[TaskText]
    ) -> tuple[list[dict[str, list[int]]], list[int] | None]:
        found: tuple[list[dict[str, list[int]]], list[int]]
        found = model.encoded([_masked_text(one.filled) for one in asked])
        return found

    def answers(self, model: Any, asked: Sequence[TaskText]) -> Int[np.ndarray, " text"]:
        found: Int[np.ndarray, " text"] = model.guesses([_masked_text(one.filled) for one in asked])
        return found

    def load(self, name: str, labels: Sequence[str] | None = None, **where: Any) -> Any:
        return load_masked(name, **where)

    def wrap(
        self, name: str, hf_model: Any, tokenizer: Any, labels: Sequence[str] | None = None
    ) -> Any:
        return masked_from_objects(name, hf_model, tokenizer)
