"""Toxicity: error rates that differ over identity terms (Dixon et al. 2018; Seshadri et al. 2022,
Table 4).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float64

from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.metrics.classifier_tasks.base import ClassifierTask, TemplateRows
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import estimate, resample

IDENTITY = "identity"
"""The slot whose words are the identity terms."""


def equality_difference(
    wrong: Bool[np.ndarray, "identity case"], seed: int, *unit: object
) -> tuple[Float64[np.ndarray, " resample"], Float64[np.ndarray, "resample case"]]:
    """Σ over identities of |rate - rate of the identity| (Dixon et al. 2018), in every resample.

    `wrong` marks misclassified texts, (identity, case); cases are resampled, named by `unit`.

    >>> wrong = np.array([[True, True], [False, False]])
    >>> float(equality_difference(wrong, 0)[0][0])
    1.0
    """
    weights = resample(wrong.shape[1], seed, *unit)
    rates = weights @ wrong.T / wrong.shape[1]
    values: Float64[np.ndarray, " resample"] = np.abs(
        rates.mean(axis=1, keepdims=True) - rates
    ).sum(axis=1)
    return values, weights


class Toxicity(ClassifierTask):
    """Do error rates differ over identity terms?"""

    labels_of: ClassVar[str] = "toxicity"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """FPED and FNED over identity terms (equation 1 and Table 4).

        The row of all lines weighs each by its number of whole-list instances, as in the paper.
        """
        rows, used, whole = TemplateRows(bank, seed), Counter[str](), Counter[str]()
        published: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for family in bank.families:
            line = family.row
            published[line] |= family.published
            for template in family.templates:
                texts = sorted(
                    bank.fill(template), key=lambda f: (f.words[IDENTITY], f.beside(IDENTITY))
                )
                labels = [family.toxic if one.toxic is None else one.toxic for one in texts]
                if None in labels:
                    raise UserError(
                        f"template {template!r} of task 'toxicity' does not say whether it is "
                        "toxic: give its words or its family toxic: true or toxic: false"
                    )
                toxic = model.probabilities([one.text for one in texts])["toxic"] > 0.5
                identities = len({one.words[IDENTITY] for one in texts})
                wrong = (toxic != np.array(labels, dtype=bool)).reshape(identities, -1)
                truth = np.array(labels[: wrong.shape[1]], dtype=bool)
                if template == family.original:
                    used[line] += wrong.size
                    whole[line] += bank.whole(template)
                for metric, cases in (("FPED", ~truth), ("FNED", truth)):
                    if n := wrong[:, cases].size:
                        draws, weights = equality_difference(
                            wrong[:, cases], seed, metric, template
                        )
                        e = estimate(draws, weights, within=(0, math.inf))
                        rows.add(metric, e, family, template, dataset=line, n=n)
        for metric in ("FPED", "FNED"):
            lines = {line: values for (name, line), values in rows.values.items() if name == metric}
            for line in lines:
                about: dict[str, Any] = {"used": used[line], "whole": whole[line]}
                rows.spread(metric, line, published=published[line].get(metric), **about)
            if lines:
                total = sum(whole[line] for line in lines)
                rows.values[metric, "all"] = [
                    sum(whole[line] / total * mean(values) for line, values in lines.items())
                    for mean in (lambda v: v[0], lambda v: float(np.mean(v[1:] or v)))
                ]
                about = {"used": sum(used[line] for line in lines), "whole": total}
                rows.spread(
                    metric, "all", n=sum(len(values) - 1 for values in lines.values()), **about
                )
        return rows
