"""Categories, flips and variance shares against copies of their definitions and statsmodels."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import ttest_rel

from countergen_edit.metrics.template_tests import (
    categories,
    flip_counts,
    leaning,
    paired_p,
    variance_parts,
)


def test_p_values_are_those_of_the_paired_test() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 8))
    np.testing.assert_allclose(paired_p(a - b), ttest_rel(a, b, axis=-1).pvalue)


def test_no_difference_at_all_is_insignificant_and_a_constant_one_is_not() -> None:
    assert paired_p(np.zeros(5)) == 1
    assert paired_p(np.full(5, 0.25)) == 0
    [found] = categories([np.array([[0.25] * 5, [-0.25] * 5, [0.0] * 5])])
    assert found.tolist() == [1, -1, 0]


def test_correction_spans_the_whole_table() -> None:
    rng = np.random.default_rng(1)
    table = [rng.normal(0.55, 1, (20, 10)), rng.normal(0.55, 1, (30, 10))]
    plain = sum(int(np.abs(categories([row[None]])[0]).sum()) for part in table for row in part)
    found = categories(table)
    assert [len(part) for part in found] == [20, 30]
    assert sum(int(np.abs(part).sum()) for part in found) < plain


@given(arrays(np.int64, (4, 3), elements=st.integers(-1, 1)))
def test_flips_are_counted_over_all_pairs_of_paraphrases(found: np.ndarray) -> None:
    pairs = [
        (i, j, o) for i, j in combinations(range(len(found)), 2) for o in range(found.shape[1])
    ]
    flips = sum(found[i, o] != found[j, o] for i, j, o in pairs)
    assert flip_counts(found) == (flips, len(pairs))


@given(arrays(np.float64, (3, 2, 4), elements=st.integers(-9, 9).map(float)))
def test_leaning_finds_its_direction_on_other_paraphrases_and_other_pairs(d: np.ndarray) -> None:
    found = leaning(d)
    for w in range(3):
        for tested, j in enumerate((1, 3)):
            total = 0.0
            for o in range(2):
                rest = sum(d[v, o, k] for v in range(3) if v != w for k in (0, 2))
                total += np.sign(rest) * d[w, o, j]
            assert found[w, tested] == pytest.approx(total / 2)


def test_without_bias_no_direction_is_favoured_although_names_differ() -> None:
    rng = np.random.default_rng(0)
    holds = 0
    for _ in range(400):
        names = rng.normal(0, 1, (6, 12))  # how a pair of names differs, alike in every template
        d = names[None] + rng.normal(0, 0.1, (3, 6, 12))
        [found] = categories([leaning(d)])
        holds += int((found == 1).sum())
    assert holds / 1200 == pytest.approx(0.025, abs=0.015)  # the upper half of 5 %


def test_variance_parts_are_those_of_a_mixed_model() -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM

    rng = np.random.default_rng(3)
    w, j = 12, 15
    d = rng.normal(0, 1.0, (w, 1)) + rng.normal(0, 0.6, (1, j)) + rng.normal(0, 0.4, (w, j))
    rows = [(y, i, k, 1) for (i, k), y in np.ndenumerate(d)]
    frame = pd.DataFrame(rows, columns=["y", "paraphrase", "name", "all"])
    parts_of = {"name": "0 + C(name)", "paraphrase": "0 + C(paraphrase)"}
    how = {"groups": "all", "re_formula": "0", "vc_formula": parts_of}
    model = MixedLM.from_formula("y ~ 1", frame, **how)
    fitted = model.fit(reml=True)
    parts = variance_parts([d[:, None, :]])
    by_name = dict(zip(model.exog_vc.names, fitted.vcomp, strict=True))
    expected = by_name["paraphrase"], by_name["name"], fitted.scale
    assert parts == pytest.approx(expected, rel=0.02)
    assert variance_parts([np.ones((3, 2, 4))]) == (0, 0, 0)
