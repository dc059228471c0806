"""Sentiment: paired differences of P(positive), and their categories.

Source: Seshadri et al. 2022, Table 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from countergen_edit.data.template_bank import Family, TemplateBank
from countergen_edit.metrics.classifier_tasks.base import ClassifierTask
from countergen_edit.metrics.classifier_tasks.over_wordings import Scores, wording_row
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted, bootstrap_mean
from countergen_edit.metrics.wordings import ALPHA, Category, paired_p
from countergen_edit.models import lexicon
from countergen_edit.models.classifiers import load_classifier
from countergen_edit.models.lexicon import Vader


def sentiment_rows(
    bank: TemplateBank, positive: Callable[[Sequence[str]], Scores], seed: int
) -> list[Row]:
    """Paired difference of P(positive), a minus b, and its category (Table 2).

    Texts about one pair of people are averaged over words first: pairs are what is tested over. The
    category is the paper's, at 5 % with no correction; `category_holm` corrects over the table.
    """
    a, b = bank.pair
    count = len(bank.people[a])
    wordings = [(family, text) for family in bank.families for text in family.wordings]
    filled = [
        [[f.text for f in bank.fill(text, g, i)] for g in (a, b) for i in range(count)]
        for _, text in wordings
    ]
    scores = positive([t for block in filled for texts in block for t in texts])
    sizes = [len(block) * len(block[0]) for block in filled]
    parts = np.split(scores, np.cumsum(sizes)[:-1])
    differences = []
    for part in parts:
        by_person = part.reshape(2, count, -1).mean(axis=2)
        differences.append(by_person[0] - by_person[1])
    p = np.array([float(paired_p(d)) for d in differences])
    holm = adjusted(p, "holm")
    signs = np.array([int(np.sign(d.mean())) for d in differences])
    category, category_holm = (np.where(q < ALPHA, signs, 0) for q in (p, holm))
    rows = []
    for i, ((family, text), d) in enumerate(zip(wordings, differences, strict=True)):
        rows.append(
            wording_row(
                "sentiment_difference",
                bootstrap_mean(d, seed, text),
                bank,
                family,
                text,
                dataset=family.name,
                n=count,
                seed=seed,
                p=float(p[i]),
                p_holm=float(holm[i]),
                category=int(category[i]),
                category_holm=int(category_holm[i]),
            )
        )
    lines = [_category_row(f, bank, wordings, category, category_holm) for f in bank.families]
    return [*rows, *lines, _all_categories(lines)]


def _category_row(
    family: Family,
    bank: TemplateBank,
    wordings: Sequence[tuple[Family, str]],
    category: Category,
    category_holm: Category,
) -> Row:
    """`category_flips`: the share of a template's rewordings that change its category."""
    own = [i for i, (other, _) in enumerate(wordings) if other is family]
    plain, holm = category[own], category_holm[own]
    a, b = bank.pair
    n = len(own) - 1
    return Row(
        "category_flips",
        float((plain[1:] != plain[0]).mean()) if n else None,
        dataset=family.name,
        group_a=a,
        group_b=b,
        n=n,
        detail={
            "original": int(plain[0]),
            # In the paper's order: b over a (its M > F), a over b, insignificant.
            "counts": [int((plain[1:] == sign).sum()) for sign in (-1, 1, 0)],
            "flips_holm": int((holm[1:] != holm[0]).sum()),
            "published": dict(family.published),
        },
    )


def _all_categories(lines: Sequence[Row]) -> Row:
    """The same over all templates."""
    counted = [line for line in lines if line.n]
    n = sum(line.n for line in counted)
    flips = sum(round((line.value or 0.0) * line.n) for line in counted)
    detail = {
        "original": None,
        "counts": np.sum([line.detail["counts"] for line in lines], axis=0).tolist(),
        "flips_holm": sum(line.detail["flips_holm"] for line in lines),
        "published": {},
    }
    value = flips / n if n else None
    return replace(lines[0], value=value, dataset="all", n=n, detail=detail)


class Sentiment(ClassifierTask):
    """Do two groups get different P(positive)? Asked of a classifier, or of VADER."""

    labels_of: ClassVar[str] = "sentiment"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """Rows `sentiment_difference` and `category_flips`; of VADER, `names_in_lexicon`."""

        def positive(texts: Sequence[str]) -> Scores:
            scores: Scores = model.probabilities(texts, progress="Classifying")["positive"]
            return scores

        rows = sentiment_rows(bank, positive, seed)
        return [*rows, _confound(bank, seed)] if isinstance(model, Vader) else rows

    def load(self, name: str, labels: Sequence[str] | None = None, **where: Any) -> Any:
        """A sequence classifier, or VADER by its name."""
        if name == lexicon.NAME:
            return Vader()
        return load_classifier(name, self.labels_of, labels=labels, **where)


def _confound(bank: TemplateBank, seed: int) -> Row:
    """The people's names that VADER's lexicon rates by themselves."""
    names = [person["base"] for people in bank.people.values() for person in people]
    valence = lexicon.lexicon_words(names)
    return Row(
        "names_in_lexicon",
        float(len(valence)),
        dataset=bank.task,
        n=len(names),
        seed=seed,
        detail={"valence": valence},
    )
