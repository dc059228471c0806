"""Sentiment: paired differences of P(positive), and their categories.

Source: Seshadri et al. 2022, Table 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from countergen_edit.data.rewordings import Family, TemplateBank
from countergen_edit.metrics.classifier_tasks.over_wordings import Scores, groups_of, wording_row
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted, bootstrap_mean
from countergen_edit.metrics.wordings import ALPHA, Category, paired_p


def sentiment_rows(
    bank: TemplateBank, positive: Callable[[Sequence[str]], Scores], seed: int
) -> list[Row]:
    """Paired difference of P(positive), a minus b, and its category (Table 2).

    Texts about one pair of people are averaged over words first: pairs are what is tested over. The
    category is the paper's, at 5 % with no correction; `category_holm` corrects over the table.
    """
    a, b = groups_of(bank)
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
    found, found_holm = category[own], category_holm[own]
    a, b = groups_of(bank)
    n = len(own) - 1
    return Row(
        "category_flips",
        float((found[1:] != found[0]).mean()) if n else None,
        dataset=family.name,
        group_a=a,
        group_b=b,
        n=n,
        detail={
            "original": int(found[0]),
            # In the paper's order: b over a (its M > F), a over b, insignificant.
            "counts": [int((found[1:] == sign).sum()) for sign in (-1, 1, 0)],
            "flips_holm": int((found_holm[1:] != found_holm[0]).sum()),
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
