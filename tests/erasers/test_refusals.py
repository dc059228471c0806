"""Invalid input is refused in one line."""

from __future__ import annotations

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import (
    SAL,
    AffineErasure,
    MeanDifference,
    PreservingEraser,
    SentenceDebias,
    certify,
    make_eraser,
)
from tests.erasers.conftest import TABLE, concept

X, z = concept(n=40, d=6)


def refusal(call, *args, **kwargs) -> str:
    with pytest.raises(UserError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


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
    assert "rank = 6 would erase all of n_features = 6: use 5 or less" in refusal(
        make_eraser(name, rank=6).fit, X, z
    )
    assert "rank=0: Input should be greater" in refusal(make_eraser, name, rank=0)


def test_a_rank_the_method_cannot_reach_is_refused():
    assert "has only 1 directions" in refusal(SAL(rank=2).fit, X, z)
    assert "differ in only 1 directions" in refusal(SentenceDebias(rank=2).fit, X, z)


def test_an_erasure_refuses_other_shapes(no_shape_checks):
    erasure = MeanDifference().fit(X, z).erasure_
    assert "do not fit an erasure of 6 features" in refusal(erasure, X[:, :5])
    assert "has left [d, k], right [k, d]" in refusal(
        AffineErasure, np.zeros((3, 1)), np.zeros((2, 3)), np.zeros(3)
    )
    assert "has left" in refusal(AffineErasure, np.zeros((3, 1)), np.zeros((1, 3)), np.zeros(2))
    assert "NaN" in refusal(AffineErasure, np.full((3, 1), np.nan), np.zeros((1, 3)), np.zeros(3))


def test_pairs_and_contexts_are_checked():
    assert "give one value to each row" in refusal(SentenceDebias().fit, X, z, pairs=[1, 2])
    pairs = np.arange(40)
    assert "has rows of one group only" in refusal(SentenceDebias().fit, X, z, pairs=pairs)
    contexts = np.repeat(["at work", "at home"], 20)
    fit = PreservingEraser().fit
    assert "did you mean 'at home'?" in refusal(fit, X, z, contexts=contexts, keep=["home"])
    assert "leave at least one" in refusal(
        fit, X, z, contexts=contexts, keep=["at work", "at home"]
    )
    assert "both to be kept and erased" in refusal(
        fit, X, z, contexts=contexts, keep=np.arange(40) < 10
    )
    assert "has rows of group" in refusal(fit, X, z, contexts=np.where(z == 0, "a", "b"))
    assert "shrinkage='lots': Input" in refusal(make_eraser, "preserving", shrinkage="lots")
    for strength in (-1.0, np.inf):
        assert f"keep_strength={strength!r}: Input should be" in refusal(
            PreservingEraser(keep_strength=strength).fit, X, z
        )
    some = {"contexts": np.arange(40) // 10, "people": [1, 2]}
    assert "people has shape (2,) for 40 rows" in refusal(fit, X, np.arange(40) % 2, **some)
    erasure = MeanDifference().fit(X, z).erasure_
    assert "groups has shape (3,)" in refusal(certify, erasure, X, z, groups=[1, 2, 3])
