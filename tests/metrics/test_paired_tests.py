"""How often either test calls groups different that are not: the reason why one is recommended."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from countergen_edit.metrics.classifier_tasks.paired_tests import TESTS, paired_tests

PAIRS, WORDS, TABLES = 30, 20, 500


def called(lean: float) -> dict[str, float]:
    """Share of tables without a group difference that a test calls significant.

    `lean` is the spread of people, in units of what varies from sentence to sentence.
    """
    rng = np.random.default_rng(0)
    people = lean * rng.normal(size=(TABLES, PAIRS, 1))
    tables = list(people + rng.normal(size=(TABLES, PAIRS, WORDS)))
    return {
        name: float(np.mean([abs(t.category) for t in paired_tests(name, tables)]))
        for name in TESTS
    }


def test_where_people_do_not_lean_either_test_keeps_its_level() -> None:
    tolerance = norm.ppf(0.995) * np.sqrt(0.05 * 0.95 / TABLES)
    for name, rate in called(0.0).items():
        assert abs(rate - 0.05) < tolerance, name


def test_where_people_lean_only_the_test_over_people_keeps_its_level() -> None:
    """By hand: a mean of sentences has 21/2 times the variance that its test believes, so that
    it is called significant where |N(0, 21/2)| > 1.96, that is in 54 %."""
    rates = called(1.0)
    assert abs(rates["people"] - 0.05) < norm.ppf(0.995) * np.sqrt(0.05 * 0.95 / TABLES)
    expected = 2 * norm.sf(norm.ppf(0.975) / np.sqrt((1 + WORDS) / 2))
    assert abs(rates["sentences"] - expected) < 0.08


def test_one_person_alone_decides_nothing() -> None:
    [test] = paired_tests("people", [np.array([[0.5, 0.6]])])
    assert (test.p, test.category) == (1.0, 0)
