"""Paired t-tests between two groups: over sentences as published, and over people.

Comes in: of each wording, the difference between the groups for every pair of people and every
word. Goes out: of each wording p, at 5 % and corrected by Holm over the table, and its category.

Seshadri et al. 2022 (section 2.1) test, template by template, the scores of all sentences of one
group against those of the other, each paired with the sentence that differs in the person alone;
that is `sentences`. (Kiritchenko & Mohammad 2018, whom they follow, first average the sentences of
one emotion over the names of a group.) Sentences about one pair of people share these people, so
that they are no independent draws: `people` averages each pair's sentences first, and asks whether
the difference would be found with other people. `tests/metrics/test_paired_tests.py` has the rates
at which either calls groups different that are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from countergen_edit.metrics.statistics import adjusted
from countergen_edit.metrics.wordings import ALPHA, paired_p

Differences = Float64[np.ndarray, "pair word"]
RECOMMENDED, PUBLISHED = "people", "sentences"
TESTS: Mapping[str, Callable[[Differences], Float64[np.ndarray, " drawn"]]] = {
    RECOMMENDED: lambda d: d.mean(axis=1),
    PUBLISHED: np.ravel,
}
"""What the test is over → the differences that it takes for independent draws."""


@dataclass(frozen=True)
class PairedTest:
    """One test of one wording. A category is 1 where a exceeds b, -1 for b over a, or 0."""

    name: str
    n: int
    """Differences that it takes for independent."""
    p: float
    p_holm: float
    category: int
    category_holm: int


def paired_tests(name: str, differences: Sequence[Differences]) -> list[PairedTest]:
    """One of `TESTS`, of every wording of a table; a single difference decides nothing: p is 1.

    >>> d = np.array([[0.1, 0.1], [0.2, 0.2], [-0.1, -0.1]])
    >>> [paired_tests(name, [d])[0].n for name in TESTS]
    [3, 6]
    """
    drawn = [TESTS[name](d) for d in differences]
    p = np.array([float(paired_p(values)) if len(values) > 1 else 1.0 for values in drawn])
    holm = adjusted(p, "holm")
    signs = [int(np.sign(values.mean())) for values in drawn]
    return [
        PairedTest(name, len(d), float(q), float(h), s * int(q < ALPHA), s * int(h < ALPHA))
        for d, q, h, s in zip(drawn, p, holm, signs, strict=True)
    ]
