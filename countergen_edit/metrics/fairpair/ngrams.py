"""Which words and phrases one side's continuations use more than the other's (FairPair, Figure 6).

Comes in: the texts of both sides. Goes out: `Term`s with smoothed log odds and a p-value adjusted
for the number of terms. A term counts once a text, since texts, unlike words, are independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from countergen_edit.data.fairpair import word_list
from countergen_edit.metrics.statistics import adjusted

MIN_TEXTS = 5
"""Terms in fewer texts of both sides together cannot differ significantly, and are not tested."""


@dataclass(frozen=True)
class Term:
    """A phrase, the share of each side's texts that has it, and whether that differs."""

    text: str
    share_pg: float
    share_gp: float
    log_odds: float
    """Positive where g(p(x)) has it more."""
    p: float
    """Two-sided, adjusted (Benjamini–Hochberg)."""


def terms_of(text: str, longest: int) -> set[str]:
    """The 1- to `longest`-grams of a text's words.

    >>> sorted(terms_of("She sings well.", 2))
    ['she', 'she sings', 'sings', 'sings well', 'well']
    """
    words = word_list(text)
    return {
        " ".join(words[i : i + n]) for n in range(1, longest + 1) for i in range(len(words) - n + 1)
    }


def compare(pg: Iterable[str], gp: Iterable[str], longest: int = 4) -> list[Term]:
    """Every term in at least `MIN_TEXTS` texts, those of g(p(x)) first.

    Log odds are smoothed by half a text in each cell (Haldane and Anscombe); z is their quotient
    with the standard error.
    """
    counts, sizes = [], []
    for texts in (pg, gp):
        counter: Counter[str] = Counter()
        size = 0
        for text in texts:
            counter.update(terms_of(text, longest))
            size += 1
        counts.append(counter)
        sizes.append(size)
    terms = sorted(t for t in counts[0] | counts[1] if counts[0][t] + counts[1][t] >= MIN_TEXTS)
    if not terms or not all(sizes):
        return []
    has = np.array([[counter[t] for t in terms] for counter in counts], dtype=np.float64)
    lacks = np.array(sizes)[:, None] - has
    odds = np.log((has + 0.5) / (lacks + 0.5))
    difference = odds[1] - odds[0]
    error = np.sqrt((1 / (has + 0.5) + 1 / (lacks + 0.5)).sum(axis=0))
    p = adjusted(2 * norm.sf(np.abs(difference) / error), "fdr_bh")
    order = np.argsort(-difference / error, kind="stable")
    return [
        Term(
            terms[k],
            float(has[0, k] / sizes[0]),
            float(has[1, k] / sizes[1]),
            float(difference[k]),
            float(p[k]),
        )
        for k in order
    ]


def strongest(terms: Sequence[Term], each: int, level: float = 0.05) -> list[Term]:
    """The most telling significant terms of both sides, at most `each` of one."""
    telling = [term for term in terms if term.p < level]
    more_gp = [term for term in telling if term.log_odds > 0][:each]
    more_pg = [term for term in telling if term.log_odds < 0][::-1][:each]
    return [*more_gp, *more_pg[::-1]]
