"""The interval of an accuracy counts rows of one person for as much as they differ."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from countergen_edit.erasers.accuracy import interval


def wilson(hits: int, count: int) -> tuple[float, float]:
    lo, hi = proportion_confint(hits, count, method="wilson")
    return float(lo), float(hi)


def test_rows_of_one_id_that_are_all_alike_count_once() -> None:
    hits = np.arange(40) % 4 > 0
    expected = wilson(30, 40)
    assert interval(hits, np.arange(40)) == pytest.approx(expected, rel=0.03)
    assert interval(np.repeat(hits, 10), np.repeat(np.arange(40), 10)) == pytest.approx(
        expected, rel=0.03
    )


def test_an_accuracy_of_one_is_as_sure_as_there_are_people() -> None:
    for rows in (1, 25):
        ends = interval(np.ones(20 * rows, dtype=bool), np.repeat(np.arange(20), rows))
        assert ends == pytest.approx(wilson(20, 20))


def test_95_of_100_intervals_cover_where_people_differ() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        of_person = rng.beta(1.4, 0.6, size=40)  # mean 0.7
        rows = rng.integers(2, 30, size=40)
        ids = np.repeat(np.arange(40), rows)
        lo, hi = interval(rng.random(len(ids)) < of_person[ids], ids)
        covered += lo <= 0.7 <= hi
    assert 0.92 <= covered / 400 <= 0.98
