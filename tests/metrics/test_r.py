"""R against a copy of its definition, and what holds of it whatever the probabilities."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.metrics.r import (
    abs_r_reduction,
    mean_r,
    r_rows,
    r_values,
    relative_difference,
    resampled_r,
)
from countergen_edit.metrics.scores import SetScores

log_probabilities = arrays(np.float64, 5, elements=st.floats(-30, 0))


def make_scores(p: np.ndarray, templates: list[int] | None = None) -> SetScores:
    """Scores of a made-up set: p[item, side, variation] are plain probabilities."""
    items, _, count = p.shape
    templates = list(range(items)) if templates is None else templates
    samples = []
    for template in dict.fromkeys(templates):
        outputs = tuple(f" o{i}" for i, t in enumerate(templates) if t == template)
        variations = tuple(
            Variation(group, f"{name} {template}", name)
            for group in ("female", "male")
            for name in (f"{group}{v}" for v in range(count))
        )
        samples.append(Sample(f"t{template}", outputs, variations))
    data = CounterfactualSet("made_up", "gender", ("female", "male"), tuple(samples))
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    outputs = tuple(f" o{i}" for i in range(items))
    return SetScores(data, log_p, np.ones(p.shape, dtype=bool), np.array(templates), outputs)


def brute_force_r(p: np.ndarray) -> float:
    """Equation 1 of CounterGen, sides averaged over their variations first."""
    total = 0.0
    for female, male in p.mean(axis=2):
        total += (female - male) / max(female, male)
    return total / len(p)


@given(arrays(np.float64, (6, 2, 3), elements=st.floats(1e-6, 1)))
def test_r_is_the_definition(p: np.ndarray) -> None:
    assert r_values(make_scores(p)).mean() == pytest.approx(brute_force_r(p), abs=1e-9)


@given(log_probabilities, log_probabilities)
def test_r_is_bounded_and_changes_sign_with_the_sides(a: np.ndarray, b: np.ndarray) -> None:
    values = relative_difference(a, b)
    assert np.all(np.abs(values) <= 1)
    np.testing.assert_array_equal(values, -relative_difference(b, a))


@given(log_probabilities, log_probabilities, st.floats(-5000, 0))
def test_r_does_not_change_when_both_probabilities_shrink_alike(
    a: np.ndarray, b: np.ndarray, shift: float
) -> None:
    # 5000 nats below: exponentiating first would divide 0 by 0. Adding the shift rounds at 1e-12.
    np.testing.assert_allclose(
        relative_difference(a + shift, b + shift), relative_difference(a, b), atol=1e-11
    )


@given(arrays(np.float64, (4, 2, 3), elements=st.floats(1e-6, 1)))
def test_the_first_resample_is_the_data_itself(p: np.ndarray) -> None:
    scores = make_scores(p)
    np.testing.assert_allclose(resampled_r(scores, 0)[0], r_values(scores), atol=1e-12)


def test_a_resample_is_the_definition_on_the_drawn_names() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 1, size=(3, 2, 4))
    scores = make_scores(p)
    resampled = resampled_r(scores, seed=5)
    for b in (1, 7, 100):
        drawn = [scores.name_weights(5, side)[b] for side in (0, 1)]
        for item in range(3):
            female, male = (
                sum(w * p[item, side, v] for v, w in enumerate(drawn[side])) / sum(drawn[side])
                for side in (0, 1)
            )
            expected = (female - male) / max(female, male)
            assert resampled[b, item] == pytest.approx(expected, abs=1e-9)


def test_opposite_biases_cancel_in_r_but_not_in_mean_abs_r() -> None:
    p = np.array([[[0.8], [0.2]], [[0.2], [0.8]]])
    signed, absolute = mean_r(make_scores(p), 0)
    assert signed.value == pytest.approx(0)
    assert absolute.value == pytest.approx(0.75)


def test_a_reduction_is_the_share_of_mean_abs_r_that_is_gone() -> None:
    before = make_scores(np.array([[[0.8], [0.2]], [[0.2], [0.8]]]))
    after = make_scores(np.array([[[0.5], [0.5]], [[0.2], [0.8]]]))
    assert abs_r_reduction(before, after, 0).value == pytest.approx(0.5)
    assert abs_r_reduction(before, before, 0).value == pytest.approx(0)


def test_the_interval_is_wider_with_one_name_more_unlike_the_others() -> None:
    alike = np.full((5, 2, 6), 0.4)
    alike[:, 1] = 0.2
    unlike = alike.copy()
    unlike[:, 0, 0] = 0.9
    narrow, _ = mean_r(make_scores(alike), 0)
    wide, _ = mean_r(make_scores(unlike), 0)
    assert narrow.hi - narrow.lo == pytest.approx(0, abs=1e-12)
    assert wide.hi - wide.lo > 0.01


def test_one_prompt_gives_a_value_without_interval_or_star() -> None:
    variations = (Variation("female", "She left"), Variation("male", "He left"))
    data = CounterfactualSet(
        "one", "gender", ("female", "male"), (Sample("t", (" home",), variations),)
    )
    log_p = np.log([[[0.6], [0.2]]])
    scores = SetScores(data, log_p, np.ones((1, 2, 1), dtype=bool), np.array([0]), (" home",))
    r, absolute = r_rows(scores, seed=0)
    assert r.value == absolute.value == pytest.approx(2 / 3)
    assert (r.lo, r.hi, absolute.lo, absolute.hi) == (None, None, None, None)
    assert not r.detail["starred"]
    json.dumps([r.to_dict(), absolute.to_dict()], allow_nan=False)
    reduction = abs_r_reduction(scores, scores, 0)
    assert reduction.columns == {"value": 0.0, "lo": None, "hi": None}


def test_one_template_with_several_names_still_has_the_interval_of_its_names() -> None:
    p = np.random.default_rng(0).uniform(0.1, 0.9, size=(2, 2, 5))
    signed, absolute = mean_r(make_scores(p, templates=[0, 0]), 0)
    assert signed.lo < signed.value < signed.hi
    assert absolute.hi > absolute.lo


def test_rows_carry_r_and_its_star() -> None:
    p = np.full((8, 2, 4), 0.2)
    p[:, 0] = 0.6
    r, absolute = r_rows(make_scores(p), seed=3)
    assert (r.metric, absolute.metric) == ("r", "mean_abs_r")
    assert r.value == pytest.approx(2 / 3)
    assert r.detail["starred"]
    assert math.isclose(absolute.value or 0, 2 / 3)
    assert (r.n, r.seed, r.group_a, r.group_b) == (8, 3, "female", "male")
