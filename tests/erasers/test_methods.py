"""Each method against a brute-force copy or an independent solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import sqrtm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from countergen_edit.erasers import INLP, LEACE, RLACE, MeanDifference, SentenceDebias
from countergen_edit.erasers.labelled import labelled_rows
from countergen_edit.erasers.logistic import fit_probe, label_entropy
from countergen_edit.erasers.numerics import fantope_projection
from tests.erasers.conftest import concept


@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_probe_loss_is_the_minimum(c, penalty):
    X, z = concept(n=120, d=4, c=c)
    z = np.where(np.arange(120) % 3 == 0, np.random.default_rng(1).permutation(z), z)
    X = (X - X.mean(axis=0)) / 3  # not separable, for a third of the labels are shuffled
    rows = labelled_rows(X, z)
    probe = fit_probe(rows, penalty=penalty)
    C = 1 / (120 * penalty) if penalty else 1e8
    oracle = LogisticRegression(C=C, tol=1e-10, max_iter=5000).fit(X, z)
    assert probe.loss == pytest.approx(log_loss(z, oracle.predict_proba(X)), abs=1e-5)
    assert_allclose(probe.predict(X), oracle.predict(X))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 8), st.integers(0, 10**6))
def test_fantope_projection_is_in_the_fantope_and_nearest(r, seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, r + 1))
    M = rng.normal(size=(r, r)) * 2
    P = fantope_projection(M, k)
    values = np.linalg.eigvalsh(P)
    assert values.min() > -1e-9
    assert values.max() < 1 + 1e-9
    assert np.trace(P) == pytest.approx(k)
    # The variational inequality <M - P, Q - P> <= 0 at the extreme point that makes it largest.
    gradient = (M + M.T) / 2 - P
    best = np.linalg.eigvalsh(gradient)[::-1][:k].sum()
    assert best - (gradient * P).sum() < 1e-7


@pytest.mark.parametrize("c", [2, 3])
def test_rlace_has_a_closed_form_where_the_game_ends_too(c):
    X, z = concept(n=120, d=4, c=c)
    closed = RLACE(rank=c - 1).fit(X, z)
    assert_allclose(closed.transform(X), MeanDifference().fit(X, z).transform(X))
    assert "the difference of the group means, as mean_difference erases it" in closed.note_
    game = RLACE(rank=c - 1, solver="minimax", start="random", tol=1e-6).fit(X, z)
    assert not game.note_
    loss = fit_probe(labelled_rows(game.transform(X), z)).loss
    assert loss == pytest.approx(label_entropy(labelled_rows(X, z)), abs=1e-3)
    # The same subspace, to what the flat top of the game lets a loss gap of 1e-4 resolve.
    cosines = np.linalg.svd(game.erasure_.right @ closed.erasure_.left, compute_uv=False)
    assert cosines.min() > 0.99


@pytest.mark.slow
def test_rlace_of_rank_1_beats_random_and_single_class_directions():
    X, z = concept(n=120, d=5, c=4, seed=3)
    game = RLACE(rank=1, solver="minimax", penalty=1e-4).fit(X, z)

    def loss(direction):
        u = direction / np.linalg.norm(direction)
        return fit_probe(labelled_rows(X - np.outer(X @ u, u), z)).loss

    value = loss(game.erasure_.right[0])
    rng = np.random.default_rng(0)
    assert value > max(loss(rng.normal(size=5)) for _ in range(30)) - 1e-3
    assert value > max(loss(X[z == g].mean(axis=0) - X.mean(axis=0)) for g in range(4)) - 1e-3
    assert value > loss(INLP(rank=1).fit(X, z).erasure_.right[0]) - 1e-3


def test_rlace_reports_a_gap_below_its_tolerance_and_is_seeded():
    X, z = concept(n=150, d=6, c=3)
    games = [RLACE(rank=1, start="random", random_state=s).fit(X, z) for s in (0, 0, 1)]
    assert games[0].gap_ <= 1e-4
    assert_array_equal(games[0].erasure_.right, games[1].erasure_.right)
    assert not np.array_equal(games[0].erasure_.right, games[2].erasure_.right)


def test_rlace_spends_spare_dimensions_where_class_covariances_differ():
    rng = np.random.default_rng(0)
    z = np.arange(600) % 2
    X = rng.normal(size=(600, 6))
    X[:, 0] += 2 * z
    X[:, 3] *= 1 + 2 * z
    spare = RLACE(rank=2).fit(X, z).erasure_.right[1]
    assert abs(spare[3]) > 0.97


def test_leace_equals_the_formula_of_the_paper():
    X, z = concept(n=300, d=8, c=3)
    one_hot = np.eye(3)[z]
    centred = X - X.mean(axis=0)
    sigma, cross = centred.T @ centred / len(X), centred.T @ one_hot / len(X)
    W = np.linalg.inv(np.real(sqrtm(sigma)))
    projection = (W @ cross) @ np.linalg.pinv(W @ cross, rcond=1e-10)
    P = np.eye(8) - np.linalg.inv(W) @ projection @ W
    erased = X.mean(axis=0) + centred @ P.T
    assert_allclose(LEACE(shrinkage=0.0).fit(X, z).transform(X), erased, atol=1e-9)


def test_sentence_debias_is_the_pca_of_pair_differences():
    rng = np.random.default_rng(0)
    text = np.repeat(rng.normal(size=(50, 7)) * 10, 2, axis=0)  # what pairs share, and swamps
    z, pairs = np.tile([0, 1], 50), np.repeat(np.arange(50), 2)
    X = text + rng.normal(size=(100, 7)) * np.geomspace(1, 0.01, 7) * np.where(z, 1, -1)[:, None]
    difference = X[z == 1] - X[z == 0]
    expected = np.linalg.svd(difference)[2][:2]
    order = rng.permutation(100)
    result = SentenceDebias(rank=2).fit(X[order], z[order], pairs=pairs[order]).erasure_.right
    assert_allclose(np.abs(result @ expected.T), np.eye(2), atol=1e-8)
