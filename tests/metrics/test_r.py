"""R against a copy of its definition, and what holds of it whatever the probabilities."""

import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from countergen_edit.data.task import Task
from countergen_edit.edits import applied
from countergen_edit.metrics.r.effect_rows import r_rows
from countergen_edit.metrics.r.formula import (
    abs_r_reduction,
    r_values,
    relative_difference,
    resampled_r,
)
from countergen_edit.metrics.r.metric import R
from countergen_edit.metrics.scored_texts import read
from countergen_edit.metrics.scored_texts import scores_of as scores_of_lines
from countergen_edit.testbed import load_axis
from tests.metrics.many_groups import two_groups
from tests.metrics.small import NAMES, edit_of, log_p, rows_of, set_of

log_probabilities = arrays(np.float64, 5, elements=st.floats(-30, 0))


def make_scores(p, paraphrases=None, *, named=True):
    """Of plain probabilities p[item, side, variation]; a template an item unless told."""
    return two_groups(*np.log(p).transpose(1, 2, 0), paraphrases or len(p), named=named)


@given(arrays(np.float64, (6, 2, 3), elements=st.floats(1e-6, 1)))
def test_r_is_the_definition(p):
    """Equation 1 of CounterGen, sides averaged over their variations first."""
    expected = [(female - male) / max(female, male) for female, male in p.mean(axis=2)]
    scores = make_scores(p)
    assert r_values(scores) == pytest.approx(np.array(expected), abs=1e-9)
    assert resampled_r(scores, 0)[0] == pytest.approx(np.array(expected), abs=1e-9)
    r, absolute = r_rows(scores, seed=3)
    assert (r.metric, absolute.metric, r.n) == ("r", "mean_abs_r", 6)
    assert r.value == pytest.approx(np.mean(expected), abs=1e-9)
    assert absolute.value == pytest.approx(np.abs(expected).mean(), abs=1e-9)


@given(log_probabilities, log_probabilities)
def test_r_is_bounded_and_changes_sign_with_the_sides(a, b):
    values = relative_difference(a, b)
    assert np.all(np.abs(values) <= 1)
    np.testing.assert_array_equal(values, -relative_difference(b, a))


@given(log_probabilities, log_probabilities, st.floats(-5000, 0))
def test_r_does_not_change_when_both_probabilities_shrink_alike(a, b, shift):
    # 5000 nats below: exponentiating first would divide 0 by 0. Adding the shift rounds at 1e-12.
    np.testing.assert_allclose(
        relative_difference(a + shift, b + shift), relative_difference(a, b), atol=1e-11
    )


def test_a_resample_is_the_definition_on_the_drawn_names():
    p = np.random.default_rng(0).uniform(0.01, 1, size=(3, 2, 4))
    scores = make_scores(p)
    resampled = resampled_r(scores, seed=5)
    weights = [scores.name_weights(5, side) for side in (0, 1)]
    for b, item in product((1, 7, 100), range(3)):
        female, male = (np.average(p[item, side], weights=weights[side][b]) for side in (0, 1))
        expected = (female - male) / max(female, male)
        assert resampled[b, item] == pytest.approx(expected, abs=1e-9)


def test_a_reduction_is_the_share_of_mean_abs_r_that_is_gone():
    before = make_scores(np.array([[[0.8], [0.2]], [[0.2], [0.8]]]))
    after = make_scores(np.array([[[0.5], [0.5]], [[0.2], [0.8]]]))
    assert abs_r_reduction(before, after, 0).value == pytest.approx(0.5)
    assert abs_r_reduction(before, before, 0).value == pytest.approx(0)


def test_one_prompt_gives_a_value_without_interval_or_star():
    scores = make_scores(np.array([[[0.6], [0.2]]]), named=False)
    r, absolute = r_rows(scores, seed=0)
    assert r.value == absolute.value == pytest.approx(2 / 3)
    assert (r.lo, r.hi, absolute.lo, absolute.hi) == (None, None, None, None)
    assert not r.detail["starred"]
    json.dumps([r.to_dict(), absolute.to_dict()], allow_nan=False)
    reduction = abs_r_reduction(scores, scores, 0)
    assert reduction.columns == {"value": 0.0, "lo": None, "hi": None}


SIZES = ("r", "mean_abs_r", "group_effect", "group_share", "null_abs_r")
CHANGES = ("abs_r_reduction", "group_effect_removed", "group_effect_change")
FITTED = {"female": ("Mary", "Anna"), "male": ("Paul", "Peter")}
IS = "{} is a", "{} is an"
WORK = " nurse", " engineer"
SIGNS = {(template, output): (-1) ** i for template in IS for i, output in enumerate(WORK)}
TASK = Task(
    load_axis("gender"),
    ("female", "male"),
    fit=(set_of("work_fit", ["{} works at the"], [[" hospital"]], FITTED),),
    validation=(set_of("work_validation", ["{} was asked"], [[" why", " for"]]),),
    test=(
        set_of("work_test", IS, [WORK] * 2),
        set_of("story_test", ["they told {} a"], [[" story", " company", " café"]]),
    ),
    planted={item: 0.25 * sign for item, sign in SIGNS.items()},
    planted_effect={item: 0.5 * sign for item, sign in SIGNS.items()},
)


def squared_effect(model, sets):
    """Squared group difference of every item without bias, by pairs, from plain logits."""
    values = []
    for sample in (sample for data in sets for sample in data.samples):
        for output in sample.outputs:
            a, b = ([log_p(model, v.text, output) for v in sample.of(group)] for group in NAMES)
            # Two people a group: the products of differences between pairs of different people.
            products = [(a[i] - b[j]) * (a[1 - i] - b[1 - j]) for i in (0, 1) for j in (0, 1)]
            values.append(np.mean(products))
    return values


@pytest.mark.parametrize(
    ("split", "validation", "names"),
    [
        ("validation", True, ["work_validation"]),
        ("test", True, ["work_test"]),  # like the validation data
        ("test", False, ["work_test", "story_test"]),
    ],
)
def test_what_is_removed_is_pooled_over_items(model, context, split, validation, names):
    task = TASK if validation else replace(TASK, validation=())
    edit, metric = edit_of(0), R().bound(task)
    sets = [data for data in (*TASK.validation, *TASK.test) if data.name in names]
    before = squared_effect(model, sets)
    with applied(model, edit.edit):
        after = squared_effect(model, sets)
    row = metric.removed(context, edit, split)
    sizes = [math.sqrt(max(float(np.mean(side)), 0.0)) for side in (before, after)]
    assert row.value == pytest.approx(1 - sizes[1] / sizes[0] if sizes[0] else 0, abs=1e-4)
    assert (row.metric, row.dataset) == ("bias_removed", "+".join(names))
    assert row.n == len(before)
    assert (metric.removed(context, edit, "validation") is None) == (not validation)


def test_rows_of_every_split(context):
    metric = R().bound(TASK)
    edited, unedited = (
        [row for split in ("test", "validation") for row in metric.measure(context, e, split)]
        for e in (edit_of(0), None)
    )
    assert {(r.metric, r.dataset) for r in edited} == {
        *((m, "work_validation") for m in SIZES),
        *product((*SIZES, *CHANGES), ("work_test", "story_test")),
    }
    rows = R(fit_data=True).bound(TASK).measure(context, edit_of(0))
    fitted = [row for row in rows if row.split == "fit"]
    assert [row for row in rows if row.split != "fit"] == metric.measure(context, edit_of(0))
    assert {(r.metric, r.dataset) for r in fitted} == {(m, "work_fit") for m in SIZES}
    # Planted truth is known of one set, and is the model's, not an edit's.
    for name, value in (("planted_mean_abs_r", 0.25), ("planted_group_effect", 0.5)):
        [planted] = rows_of(unedited, name)
        assert (planted.dataset, planted.value) == ("work_test", value)
    kept = [x for x in read(context.place("r", None)) if x["dataset"] == "work_test"]
    [row] = [r for r in rows_of(unedited, "r") if r.dataset == "work_test"]
    assert r_values(scores_of_lines(kept)).mean() == pytest.approx(row.value)
