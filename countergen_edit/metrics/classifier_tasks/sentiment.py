"""Sentiment: paired differences of P(positive), their tests and categories.

Seshadri et al. 2022 (section 2.1, Table 2) test, template by template, all sentences of one group
against those of the other, paired (`sentences`). Sentences about one pair of people are not
independent: `people` averages each pair's sentences first. `tests/testbed/test_classifiers.py` has
the false positive rates of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.metrics.classifier_tasks.base import ClassifierTask, TemplateRows
from countergen_edit.metrics.paraphrases import ALPHA, paired_p
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate, adjusted, bootstrap_mean
from countergen_edit.models.classifiers import VADER, Vader, lexicon_words

Differences = Float64[np.ndarray, "pair word"]
RECOMMENDED, PUBLISHED = "people", "sentences"
TESTS: Mapping[str, Callable[[Differences], Float64[np.ndarray, " drawn"]]] = {
    RECOMMENDED: lambda d: d.mean(axis=1),
    PUBLISHED: np.ravel,
}
"""What the test is over → the differences that it takes for independent draws."""


@dataclass(frozen=True)
class PairedTest:
    """One test of one template; `n` differences are taken for independent.

    Category 1 says a exceeds b, -1 b exceeds a, 0 neither.
    """

    n: int
    p: float
    p_holm: float
    category: int
    category_holm: int


def paired_tests(name: str, differences: Sequence[Differences]) -> list[PairedTest]:
    """One of `TESTS`, of every template of a table; for a single difference p is 1.

    >>> d = np.array([[0.1, 0.1], [0.2, 0.2], [-0.1, -0.1]])
    >>> [paired_tests(name, [d])[0].n for name in TESTS]
    [3, 6]
    """
    drawn = [TESTS[name](d) for d in differences]
    p = np.array([float(paired_p(values)) if len(values) > 1 else 1.0 for values in drawn])
    holm = adjusted(p, "holm")
    signs = [int(np.sign(values.mean())) for values in drawn]
    return [
        PairedTest(len(d), float(q), float(h), s * int(q < ALPHA), s * int(h < ALPHA))
        for d, q, h, s in zip(drawn, p, holm, signs, strict=True)
    ]


class Sentiment(ClassifierTask):
    """Do two groups get different P(positive)? Asked of a classifier, or of VADER."""

    labels_of: ClassVar[str] = "sentiment"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """Rows `sentiment_difference`, `sentiment_t_test` and `category_flips` (Table 2).

        The i-th people of both groups are paired; intervals are over pairs; the value of a test's
        row is p. Of VADER also `names_in_lexicon`.
        """
        count = len(bank.people[bank.pair[0]])
        templates = [(family, text) for family in bank.families for text in family.templates]
        texts = [[one.filled.text for one in self.texts(bank, *each)] for each in templates]
        every = [text for own in texts for text in own]
        positive = model.probabilities(every, progress="Classifying")["positive"]
        parts = np.split(positive, np.cumsum([len(own) for own in texts])[:-1])
        sides = [part.reshape(2, count, -1) for part in parts]
        differences = [a - b for a, b in sides]
        rows = TemplateRows(bank, seed)
        for (family, text), d in zip(templates, differences, strict=True):
            e = bootstrap_mean(d.mean(axis=1), seed, text)
            rows.add("sentiment_difference", e, family, text, dataset=family.name, n=count)
        for name in TESTS:
            tests = paired_tests(name, differences)
            for (family, text), test in zip(templates, tests, strict=True):
                p = Estimate(test.p, math.nan, math.nan, math.nan)
                about: dict[str, Any] = {"dataset": family.name, "n": test.n}
                about["facets"] = {"test": name}
                detail = {k: getattr(test, k) for k in ("p_holm", "category", "category_holm")}
                rows.add("sentiment_t_test", p, family, text, **about, **detail)
            left = iter(tests)
            of_families = [[*islice(left, len(family.templates))] for family in bank.families]
            for family, own in zip(bank.families, of_families, strict=True):
                published = dict(family.published) if name == PUBLISHED else {}
                rows.append(_flips(rows, name, family.name, [own], published))
            rows.append(_flips(rows, name, "all", of_families, {}))
        return [*rows, _confound(bank, seed)] if isinstance(model, Vader) else rows

    def load(self, name: str, labels: Sequence[str] | None = None, **where: Any) -> Any:
        return Vader() if name == VADER else super().load(name, labels, **where)


def _flips(
    rows: TemplateRows,
    name: str,
    dataset: str,
    of_families: Sequence[Sequence[PairedTest]],
    published: Mapping[str, Any],
) -> Row:
    """`category_flips`: the share of paraphrases that change the category of their original."""
    pairs = [(own[0], other) for own in of_families for other in own[1:]]
    n = len(pairs)
    return Row(
        "category_flips",
        sum(one.category != other.category for one, other in pairs) / n if n else None,
        dataset=dataset,
        **rows.groups,
        facets={"test": name},
        n=n,
        detail={
            "original": of_families[0][0].category if dataset != "all" else None,
            # In the paper's order: b over a (its M > F), a over b, insignificant.
            "counts": [sum(other.category == sign for _, other in pairs) for sign in (-1, 1, 0)],
            "flips_holm": sum(one.category_holm != other.category_holm for one, other in pairs),
            "published": published,
        },
    )


def _confound(bank: TemplateBank, seed: int) -> Row:
    """The people's names that VADER's lexicon rates."""
    names = [person["base"] for people in bank.people.values() for person in people]
    valence = lexicon_words(names)
    about: dict[str, Any] = {"dataset": bank.task, "n": len(names), "seed": seed}
    return Row("names_in_lexicon", float(len(valence)), **about, detail={"valence": valence})
