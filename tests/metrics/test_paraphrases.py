"""The spread over templates of made-up scores whose answer is known, and of the testbed."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import ttest_rel
from statsmodels.regression.mixed_linear_model import MixedLM

from countergen_edit.data.task import Task
from countergen_edit.edits import Edit, NamedEdit
from countergen_edit.metrics.paraphrases import (
    Paraphrases,
    categories,
    crossed_variances,
    flip_counts,
    holding_rows,
    leaning,
    paired_p,
    reductions,
    spread_rows,
)
from countergen_edit.metrics.r.formula import r_values
from countergen_edit.testbed import load_axis, load_truth
from tests.metrics.many_groups import two_groups
from tests.metrics.small import rows_of


def made_up(lean, content="c", names=8):
    """log P(a) - log P(b) of each template (row) and output, names differing a little."""
    half = np.ravel(lean) / 2
    noise = np.random.default_rng(0).normal(0, 0.01, (half.size, 2, names))
    log_p = -2 + np.stack([half, -half], axis=1)[:, :, None] + noise
    return two_groups(*log_p.transpose(1, 2, 0), len(lean), content=content)


def spread(lean, content="c"):
    return {row.metric: row for row in spread_rows(made_up(lean, content), 0)}


def test_a_paraphrase_that_turns_the_direction_round_is_against_the_others():
    rows = spread([[1, -1], [0.9, -1.1], [-1, 1]])
    by_template = rows["r_sd_over_paraphrases"].detail["paraphrases"]
    assert [line["a"] for line in by_template] == [1, 1, 1]
    assert by_template[2]["leans"] == -1
    flips = rows["paraphrase_flip_rate"]
    # Either output, first and second template against the third.
    assert (flips.value, flips.n) == (pytest.approx(4 / 6), 6)


def test_paraphrases_that_agree_hold_and_do_not_flip():
    lean = [[1.0, -1.0], [0.5, -0.5], [0.1, -2.0]]
    rows = spread(lean)
    sd = rows["r_sd_over_paraphrases"]
    assert [line["leans"] for line in sd.detail["paraphrases"]] == [1, 1, 1]
    assert rows["paraphrases_holding"].value == 3
    assert rows["paraphrase_flip_rate"].value == 0
    by_paraphrase = np.abs(r_values(made_up(lean))).reshape(3, 2).mean(axis=1)
    assert [line["mean_abs_r"] for line in sd.detail["paraphrases"]] == pytest.approx(by_paraphrase)
    assert sd.value == pytest.approx(by_paraphrase.std(ddof=1))
    assert rows["paraphrase_variance_share"].value > 0.9
    [alone] = spread([[1, -1], [0.5, -0.5]], content=None).values()
    assert (alone.metric, alone.value) == ("r_sd_over_paraphrases", None)


def test_reductions_are_those_of_each_paraphrase():
    before, after = made_up([[1, -1], [2, -2]]), made_up([[1, -1], [0.2, -0.2]])
    by_template = reductions(before, after, 0)
    r = [np.abs(r_values(s)).reshape(2, 2).mean(axis=1) for s in (before, after)]
    values = [value for value, _, _ in by_template.values()]
    assert values == pytest.approx(1 - r[1] / r[0])
    value, lo, _ = by_template["w1"]
    assert 0 < lo < value


def test_the_testbed_leans_as_planted_on_every_paraphrase(on_testbed):
    truth, gender = load_truth(), load_axis("gender")
    families = ("stereotypes", "sentiment")
    test = tuple(truth.counterfactual_set(family, "test", gender) for family in families)
    metric = Paraphrases().bound(Task(gender, ("female", "male"), test=test))
    rows = metric.measure(on_testbed, None)
    holds = rows_of(rows, "paraphrases_holding")
    assert {r.dataset for r in holds} == {"stereotypes_test", "sentiment_test"}
    assert all(r.value == r.n for r in holds)
    [spread] = [
        r for r in rows_of(rows, "r_sd_over_paraphrases") if r.dataset == "stereotypes_test"
    ]
    assert not spread.detail["tested"]  # no names in these prompts: categories are signs
    assert len(spread.detail["paraphrases"]) == spread.n == 16
    idle = metric.measure(on_testbed, NamedEdit.of(Edit(()), "idle"))
    assert [row.value for row in rows_of(idle, "reduction_holding")] == [0, 0]


@pytest.mark.parametrize(
    ("left", "falls", "halves"),
    [(0.3, 1, 1), (0.45, 1, 0), (0.735, 1, 0), (0.745, 0, 0), (0.754, 0, 0), (0.8, 0, 0)],
)
def test_a_paraphrase_counts_by_what_its_interval_shows(left, falls, halves):
    """Of |R| 0.754 on both templates, where that is left of it."""
    before, after = (-np.log1p(-r) for r in (0.754, left))
    pair = (made_up([[d, -d], [d, -d]]) for d in (before, after))
    fell, halved = holding_rows(*pair, 0)
    assert (fell.value, halved.value) == (2 * falls, 2 * halves)
    assert fell.n == halved.n == 2


def test_p_values_are_those_of_the_paired_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 8))
    np.testing.assert_allclose(paired_p(a - b), ttest_rel(a, b, axis=-1).pvalue)


def test_no_difference_at_all_is_insignificant_and_a_constant_one_is_not():
    assert paired_p(np.zeros(5)) == 1
    assert paired_p(np.full(5, 0.25)) == 0
    [signs] = categories([np.array([[0.25] * 5, [-0.25] * 5, [0.0] * 5])])
    assert signs.tolist() == [1, -1, 0]


def test_correction_spans_the_whole_table():
    rng = np.random.default_rng(1)
    table = [rng.normal(0.55, 1, (20, 10)), rng.normal(0.55, 1, (30, 10))]
    plain = sum(int(np.abs(categories([row[None]])[0]).sum()) for part in table for row in part)
    corrected = categories(table)
    assert [len(part) for part in corrected] == [20, 30]
    assert sum(int(np.abs(part).sum()) for part in corrected) < plain


@given(arrays(np.int64, (4, 3), elements=st.integers(-1, 1)))
def test_flips_are_counted_over_all_pairs_of_paraphrases(signs):
    for flips, of_output in zip(flip_counts(signs), signs.T, strict=True):
        assert flips == sum(a != b for a, b in combinations(of_output, 2))


def test_the_share_between_paraphrases_is_covered_over_outputs():
    """Of outputs whose paraphrases truly differ: half of the variance."""
    rng, covered, widths = np.random.default_rng(0), 0, []
    for seed in range(100):
        between, noise = rng.normal(0, 0.01, (4, 30)), rng.normal(0, 0.01, (4, 30, 12))
        lean = (between[:, :, None] + noise).reshape(120, 12).T
        scores = two_groups(-3 + lean / 2, -3 - lean / 2, 4, content="c")
        rows = spread_rows(scores, seed)
        [share] = rows_of(rows, "paraphrase_variance_share")
        covered += share.lo <= 0.5 <= share.hi
        widths.append(share.hi - share.lo)
    assert covered >= 88
    assert np.mean(widths) < 0.25


@given(arrays(np.float64, (3, 2, 4), elements=st.integers(-9, 9).map(float)))
def test_leaning_finds_its_direction_on_other_paraphrases_and_other_pairs(d):
    for w, of_template in enumerate(leaning(d)):
        directions = np.sign(np.delete(d, w, axis=0)[:, :, ::2].sum(axis=(0, 2)))
        assert of_template == pytest.approx(directions @ d[w, :, 1::2] / 2)


def test_without_bias_no_direction_is_favoured_although_names_differ():
    rng = np.random.default_rng(0)
    holds = 0
    for _ in range(400):
        names = rng.normal(0, 1, (6, 12))  # how a pair of names differs, alike in every template
        d = names[None] + rng.normal(0, 0.1, (3, 6, 12))
        [signs] = categories([leaning(d)])
        holds += (signs == 1).sum()
    assert holds / 1200 == pytest.approx(0.025, abs=0.015)  # the upper half of 5 %


def test_crossed_variances_are_those_of_a_mixed_model():
    rng = np.random.default_rng(3)
    w, j = 12, 15
    d = rng.normal(0, 1.0, (w, 1)) + rng.normal(0, 0.6, (1, j)) + rng.normal(0, 0.4, (w, j))
    rows = [(y, i, k, 1) for (i, k), y in np.ndenumerate(d)]
    frame = pd.DataFrame(rows, columns=["y", "paraphrase", "name", "all"])
    parts_of = {"name": "0 + C(name)", "paraphrase": "0 + C(paraphrase)"}
    how = {"groups": "all", "re_formula": "0", "vc_formula": parts_of}
    model = MixedLM.from_formula("y ~ 1", frame, **how)
    fitted = model.fit(reml=True)
    [parts] = crossed_variances(d[:, None, :])
    by_name = dict(zip(model.exog_vc.names, fitted.vcomp, strict=True))
    expected = by_name["paraphrase"], by_name["name"], fitted.scale
    assert parts == pytest.approx(expected, rel=0.02)
    assert not crossed_variances(np.ones((3, 2, 4))).any()
