"""Erasure behind a gate acts where a difference is to go, and nowhere else."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from countergen_edit.erasers import AffineErasure, Gate, Gated, certify
from countergen_edit.erasers.gated import fit_gate

D = 10
numbers = st.floats(-5, 5, allow_nan=False, width=32)


def planted(n=400, seed=0):
    """Rows, classes, and which are to be kept: in both kinds the classes differ along axis 0.

    No map that acts on all rows alike erases it in one kind and keeps it in the other. The kinds
    differ along axis 1.
    """
    rng = np.random.default_rng(seed)
    z, keep = np.arange(n) % 2, np.arange(n) >= n // 2
    X = rng.normal(size=(n, D))
    X[:, 0] += 3.0 * z
    X[:, 1] += np.where(keep, -8.0, 8.0)
    return X, z, keep


def gap(X, z):
    return float(np.linalg.norm(X[z == 1].mean(axis=0) - X[z == 0].mean(axis=0)))


def test_the_same_difference_goes_in_some_rows_and_stays_in_others():
    X, z, keep = planted(4000)
    contexts = np.where(keep, "keep", "erase")
    fitted = Gated("mean_difference").fit(X, z, contexts=contexts, keep=keep)
    X, z, keep = planted(4000, seed=1)
    erased = fitted.transform(X)
    assert np.array_equal(erased[keep], X[keep])
    before, after = (gap(rows[~keep], z[~keep]) for rows in (X, erased))
    assert before > 2.5
    assert after < 0.5


def test_neutral_text_stays_to_the_last_bit_if_nothing_is_to_be_kept():
    X, z, is_neutral = planted()
    fitted = Gated("leace").fit(X[~is_neutral], z[~is_neutral], background=X[is_neutral])
    X, _, is_neutral = planted(seed=2)
    neutral = X[is_neutral]
    assert np.array_equal(fitted.transform(neutral), neutral)
    tensor = torch.tensor(neutral, dtype=torch.bfloat16)
    assert torch.equal(fitted.transform(tensor), tensor)


def test_the_gate_is_half_open_where_the_log_odds_of_a_weighted_probe_are_even():
    """Against scikit-learn's own log odds; kinds count for their shares, however many rows."""
    rng = np.random.default_rng(0)
    opened, keep, neutral = (
        rng.normal(size=(n, 4)) + shift for n, shift in ((90, 1.0), (30, 0.0), (80, -1.0))
    )
    rows, labels = np.vstack([opened, keep, neutral]), np.repeat([1, 0], [90, 110])
    scaled = StandardScaler().fit_transform(rows)
    weights = 200 * np.repeat([0.5 / 90, 0.4 / 30, 0.1 / 80], [90, 30, 80])
    probe = LogisticRegression(C=1 / (0.1 * 200), tol=1e-10, max_iter=500)
    odds = probe.fit(scaled, labels, sample_weight=weights).decision_function(scaled)
    gate = fit_gate(opened, keep, neutral, 0.1)
    assert np.allclose(gate(rows), np.clip(odds + 0.5, 0.0, 1.0), atol=1e-6)


@pytest.mark.parametrize("kind", ["keep", "background"])
def test_far_from_what_stays_the_gate_opens_beyond_even_odds(kind):
    """Rows three fifths of the way to those that stay count as to be erased."""
    rng = np.random.default_rng(0)
    opened, closed = (rng.normal(size=(200, 4)) / 10 + 5 * side for side in (1, -1))
    none = np.zeros((0, 4))
    keep, background = (closed, none) if kind == "keep" else (none, closed)
    gate = fit_gate(opened, keep, background, 0.01)
    assert not gate(closed).any()
    assert (gate(opened) == 1).all()
    between = rng.normal(size=(200, 4)) / 10 - 1
    assert (gate(between) == 1).all()


@given(st.lists(numbers, min_size=D, max_size=D), numbers, st.integers(0, 20))
def test_a_gated_map_is_a_mixture_of_a_row_and_its_erasure(weight, bias, seed):
    rng = np.random.default_rng(seed)
    erasure = AffineErasure(rng.normal(size=(D, 2)), rng.normal(size=(2, D)), rng.normal(size=D))
    gate = Gate(np.array(weight), bias)
    gated = AffineErasure(erasure.left, erasure.right, erasure.mean, gate)
    X = rng.normal(size=(7, D))
    share = np.clip(X @ weight + bias, 0.0, 1.0)
    expected = X + share[:, None] * (erasure(X) - X)
    assert np.allclose(gated(X), expected, atol=1e-9)
    assert np.allclose(gated(torch.tensor(X)).numpy(), expected, atol=1e-9)
    assert np.array_equal(pickle.loads(pickle.dumps(gated))(X), gated(X))


def test_it_is_not_refitted_without_keep():
    """A refit without `keep` would have no gate."""
    X, z, keep = planted()
    fitted = Gated("leace").fit(X, z, keep=keep)
    assert fitted.row_ids_ == ("keep",)
    ungated = certify(Gated("leace").fit(X, z), X, z)
    for fit_params in ({}, {"keep": keep}):
        certificate = certify(fitted, X, z, fit_params=fit_params)
        assert certificate.linear_accuracy_after > ungated.linear_accuracy_after + 0.1
