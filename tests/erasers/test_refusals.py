"""Invalid input is refused in one line."""

import re
from functools import partial

import numpy as np
import pytest

from countergen_edit.erasers import (
    SAL,
    SPLINCE,
    AffineErasure,
    Gate,
    MeanDifference,
    PreservingEraser,
    SentenceDebias,
    certify,
    make_eraser,
)
from tests.erasers.conftest import TABLE, concept, refusal

X, z = concept(n=40, d=6)


@pytest.mark.parametrize("name", TABLE)
def test_every_eraser_refuses_bad_rows_in_one_line(name):
    fit = TABLE[name].eraser.fit
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        bad = X.copy()
        bad[3, 2] = value
        assert f"contains {word} (first at row 3, column 2)" in refusal(fit, bad, z)
    assert "only one class (n_samples = 40)" in refusal(fit, X, np.zeros(40))
    assert "inconsistent numbers of samples: [40, 39]" in refusal(fit, X, z[:-1])
    assert "Unknown label type" in refusal(fit, X, X[:, 0])
    assert "Found array with 0 sample(s)" in refusal(fit, X[:0], z[:0])


@pytest.mark.parametrize(
    "name", ["inlp", "rlace", "sal", "random", "sentence_debias", "preserving"]
)
def test_a_rank_that_would_erase_everything_is_refused(name):
    message = refusal(make_eraser(name, rank=6).fit, X, z)
    assert "rank = 6 would erase all of n_features = 6: use 5 or less" in message
    assert "rank=0: Input should be greater" in refusal(make_eraser, name, rank=0)


def test_a_rank_the_method_cannot_reach_is_refused():
    assert "has only 1 directions" in refusal(SAL(rank=2).fit, X, z)
    assert "differ in only 1 directions" in refusal(SentenceDebias(rank=2).fit, X, z)


def test_an_erasure_refuses_other_shapes(no_shape_checks):
    assert "do not fit an erasure of 6 features" in refusal(FITTED.erasure_, X[:, :5])
    left, right, mean = np.zeros((3, 1)), np.zeros((1, 3)), np.zeros(3)
    for parts, says in (
        ((left, np.zeros((2, 3)), mean), "has left [d, k], right [k, d]"),
        ((left, right, np.zeros(2)), "has left"),
        ((left + np.nan, right, mean), "NaN"),
        ((left, right, mean, Gate(np.zeros(4), 0.0)), "the gate reads 4 features of 3"),
    ):
        assert says in refusal(AffineErasure, *parts)
    assert "finite" in refusal(Gate, np.array([np.nan]), 0.0)


HALF = np.repeat(["at work", "at home"], 20)
FIT, FITTED = PreservingEraser().fit, MeanDifference().fit(X, z)


@pytest.mark.parametrize(
    ("says", "call", "settings"),
    [
        ("give one value to each row", SentenceDebias().fit, {"pairs": [1, 2]}),
        ("has rows of one group only", SentenceDebias().fit, {"pairs": np.arange(40)}),
        ("did you mean 'at home'?", FIT, {"contexts": HALF, "keep": ["home"]}),
        ("leave at least one", FIT, {"contexts": HALF, "keep": ["at work", "at home"]}),
        ("both to be kept and erased", FIT, {"contexts": HALF, "keep": np.arange(40) < 10}),
        ("has rows of group", FIT, {"contexts": np.where(z == 0, "a", "b")}),
        ("keep_strength=-1.0: Input", PreservingEraser(keep_strength=-1.0).fit, {}),
        ("keep_strength=inf: Input", PreservingEraser(keep_strength=np.inf).fit, {}),
        ("groups has shape (3,)", partial(certify, FITTED), {"groups": [1, 2, 3]}),
        ("keep has int64 values: give one boolean", SPLINCE().fit, {"keep": np.ones(40, int)}),
        ("keep has shape (39,) for 40 rows", SPLINCE().fit, {"keep": np.ones(39, bool)}),
        ("only one class", SPLINCE().fit, {"keep": z == 0}),
        ("features", SPLINCE().fit, {"background": np.ones((5, 3))}),
    ],
)
def test_metadata_and_settings_are_checked(says, call, settings):
    assert says in refusal(call, X, z, **settings)


@pytest.mark.parametrize("least", [0.01, 0.0])
def test_what_is_to_go_and_to_stay_along_one_direction_is_refused(least):
    twice, twin = np.vstack([X, X + 0.5]), np.arange(80) >= 40
    message = refusal(SPLINCE(min_angle=least).fit, twice, np.tile(z, 2), keep=twin)
    assert re.search(r"within .* rad of the one to keep \(min_angle = ", message)


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("splince", {"shrinkage": "lots"}, "shrinkage='lots': Input"),
        ("preserving", {"shrinkage": "lots"}, "shrinkage='lots': Input"),
        ("gated", {"penalty": 0.0}, "gated.penalty=0.0: Input should be greater than 0"),
        ("gated", {"start": {"rank": 2}}, "names no eraser: give its kind"),
        ("gated", {"start": "leece"}, "leace"),
    ],
)
def test_bad_settings_are_refused(name, settings, says):
    assert says in refusal(lambda: make_eraser(name, **settings).check())
