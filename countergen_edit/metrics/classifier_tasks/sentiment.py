"""Sentiment: paired differences of P(positive), their tests and categories.

Seshadri et al. 2022 (section 2.1, Table 2) test, template by template, all sentences of one group
against those of the other, paired (`sentences`). Sentences about one pair of people are not
independent: `people` averages each pair's sentences first. `tests/testbed/test_classifiers.py` has
the false positive rates of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float64

from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.metrics.classifier_tasks.base import ClassifierTask, TemplateRows
from countergen_edit.metrics.paraphrases import ALPHA, paired_p
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import adjusted, bootstrap_mean
from countergen_edit.models.classifiers import Vader, lexicon_words

Differences = Float64[np.ndarray, "pair word"]
OVER_PEOPLE, OVER_SENTENCES = "people", "sentences"
TESTS: Mapping[str, Callable[[Differences], Float64[np.ndarray, " drawn"]]] = {
    OVER_PEOPLE: lambda d: d.mean(axis=1),
    OVER_SENTENCES: np.ravel,
}
"""What the test is over → the differences that it takes for independent draws."""


def paired_tests(name: str, differences: Sequence[Differences]) -> pd.DataFrame:
    """One of `TESTS`, of every template of a table; for a single difference p is 1.

    `n` differences are taken for independent. Category 1 says a exceeds b, -1 b exceeds a, 0
    neither.

    >>> d = np.array([[0.1, 0.1], [0.2, 0.2], [-0.1, -0.1]])
    >>> [int(paired_tests(name, [d]).n[0]) for name in TESTS]
    [3, 6]
    """
    drawn = [TESTS[name](d) for d in differences]
    p = np.array([float(paired_p(values)) if len(values) > 1 else 1.0 for values in drawn])
    sign = np.sign([values.mean() for values in drawn]).astype(int)
    tests = pd.DataFrame({"n": [len(values) for values in drawn], "p": p})
    tests["p_holm"] = adjusted(p, "holm")
    tests["category"] = sign * (tests.p < ALPHA)
    tests["category_holm"] = sign * (tests.p_holm < ALPHA)
    return tests


class SentimentTask(ClassifierTask):
    """Do two groups get different P(positive)? Asked of a classifier, or of VADER."""

    labels_of: ClassVar[str] = "sentiment"

    def rows(self, bank: TemplateBank, model: Any, seed: int) -> list[Row]:
        """Rows `sentiment_difference`, `sentiment_t_test` and `category_flips` (Table 2).

        The i-th people of both groups are paired; intervals are over pairs; the value of a test's
        row is p. Of VADER also `names_in_lexicon`.
        """
        rows, people = TemplateRows(bank, seed), len(bank.people[bank.pair[0]])
        templates = [(family, text) for family in bank.families for text in family.templates]
        texts = [[filled.text for filled in self.texts(bank, text)] for _, text in templates]
        every = [text for of_template in texts for text in of_template]
        positive = model.probabilities(every, progress="Classifying")["positive"]
        parts = np.split(positive, np.cumsum([*map(len, texts)])[:-1])
        differences = [a - b for a, b in (part.reshape(2, people, -1) for part in parts)]
        for (family, text), d in zip(templates, differences, strict=True):
            e = bootstrap_mean(d.mean(axis=1), seed, text)
            rows.add("sentiment_difference", e, family, text, dataset=family.name, n=people)
        for name in TESTS:
            tests = paired_tests(name, differences)
            about: dict[str, Any] = {**rows.groups, "seed": seed}
            for (family, text), test in zip(templates, tests.to_dict("records"), strict=True):
                about |= {"facets": {"paraphrase": text, "test": name}, "dataset": family.name}
                p, n = test.pop("p"), test.pop("n")
                detail = {"original": text == family.original} | test
                rows.append(Row("sentiment_t_test", p, n=n, detail=detail, **about))
            rows += _flips(rows, name, tests, bank)
        return [*rows, _confound(bank, seed)] if isinstance(model, Vader) else rows


def _flips(rows: TemplateRows, name: str, tests: pd.DataFrame, bank: TemplateBank) -> list[Row]:
    """`category_flips`: the share of paraphrases that change the category of their original.

    One row for each family, one for all.
    """
    family = np.repeat(range(len(bank.families)), [len(f.templates) for f in bank.families])
    first = tests.groupby(family).transform("first")
    flips, is_other = tests != first, pd.Series(family).duplicated()
    flip_rows = []
    for i, of in enumerate((*bank.families, None)):
        chosen = is_other if of is None else is_other & (family == i)
        n, categories = int(chosen.sum()), tests.category[chosen]
        detail: dict[str, Any] = {
            "original": None if of is None else int(first.category[family == i].iloc[0]),
            # In the paper's order: b over a (its M > F), a over b, insignificant.
            "counts": [int((categories == sign).sum()) for sign in (-1, 1, 0)],
            "flips_holm": int(flips.category_holm[chosen].sum()),
            "published": dict(of.published) if of and name == OVER_SENTENCES else {},
        }
        about: dict[str, Any] = {"facets": {"test": name}, **rows.groups, "detail": detail}
        share = float(flips.category[chosen].mean()) if n else None
        flip_rows.append(
            Row("category_flips", share, dataset=of.name if of else "all", n=n, **about)
        )
    return flip_rows


def _confound(bank: TemplateBank, seed: int) -> Row:
    """The people's names that VADER's lexicon rates."""
    names = [person["base"] for people in bank.people.values() for person in people]
    valence = lexicon_words(names)
    about: dict[str, Any] = {"dataset": bank.task, "n": len(names), "seed": seed}
    return Row("names_in_lexicon", float(len(valence)), **about, detail={"valence": valence})
