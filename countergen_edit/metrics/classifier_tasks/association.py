"""Masked models: with which group traits are associated (Kurita et al. 2019; Seshadri et al. 2022,
Table 3b).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from countergen_edit.data.template_bank import PERSON, TemplateBank
from countergen_edit.metrics.classifier_tasks.base import ClassifierTask, TemplateRows
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import bootstrap_mean
from countergen_edit.models.classifiers import MaskedModel, MaskedText

SCORE_DECIMALS = 3
"""Decimals of a bias score, in nats; the rest is rounding of models in single precision."""


class Association(ClassifierTask):
    """Are traits associated with one group rather than the other? Asked of a masked model."""

    labels_of: ClassVar[str] = "masked"
    head: ClassVar[str] = "masked language model"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """Percentage of traits associated with group b rather than a, the paper's male (Table 3b).

        A trait's score is log p(b | trait) - log p(b) less the same of a (Kurita et al. 2019),
        averaged over pairs of targets.
        """
        kinds, rows = bank.kinds.get("attribute", {}), TemplateRows(bank, seed)
        for family in bank.families:
            used: dict[str, int] = {}
            for template in family.templates:
                texts = [*self.texts(bank, template)]
                scores = model.associations(
                    [MaskedText(f.text, f.spans[PERSON], f.spans["attribute"]) for f in texts]
                )
                a, b = scores.reshape(2, len(bank.people[bank.pair[0]]), -1).mean(axis=1)
                traits = [filled.words["attribute"] for filled in texts[: len(a)]]
                for kind in dict.fromkeys(kinds.values()):
                    bias = (b - a)[[kinds[trait] == kind for trait in traits]]
                    n = used[kind] = len(bias)
                    # A trait without any association, but for rounding, is half of each.
                    share = 50.0 * (1.0 + np.sign(np.round(bias, SCORE_DECIMALS)))
                    e = bootstrap_mean(share, seed, kind, template, whole=100)
                    about: dict[str, Any] = {"n": n, "mean_score": float(bias.mean())}
                    rows.add("b_associations", e, family, template, dataset=kind, **about)
            for kind, n in used.items():
                about = {"used": n, "whole": bank.sizes.get(kind, n)}
                about["published"] = dict(bank.published.get(kind, {}))
                rows.spread("b_associations", kind, **about)
        return rows

    def wrap(
        self, name: str, hf_model: Any, tokenizer: Any, labels: Sequence[str] | None = None
    ) -> Any:
        return MaskedModel(name, hf_model, tokenizer)
