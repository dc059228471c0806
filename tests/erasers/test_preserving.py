"""The preserving eraser keeps some contexts, erases the others, and changes least."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import sqrtm
from sklearn.covariance import shrunk_covariance

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import LEACE, PreservingEraser
from countergen_edit.erasers.contexts import folds, read_contexts
from countergen_edit.erasers.labelled import labelled_rows


def in_contexts(n_names=30, d=24, erase=6, keep=2, noise=0.3, seed=0):
    """Rows per (context, group, name), which differ along one plane or, to be kept, another."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    X, z, contexts = [], [], []
    for number in range(erase + keep):
        is_kept = number >= erase
        offset = axes[:, 4:] @ rng.normal(size=d - 4) * 2
        plane = axes[:, :2] if is_kept else axes[:, 1:4]  # the planes share one axis
        direction = plane @ (rng.normal(size=plane.shape[1]) + 1.5)
        for sign in (1, -1):
            X.append(offset + sign * direction + noise * rng.normal(size=(n_names, d)))
            z += ["f" if sign > 0 else "m"] * n_names
            contexts += [f"{'keep' if is_kept else 'erase'} {number}"] * n_names
    kept = [f"keep {number}" for number in range(erase, erase + keep)]
    return np.concatenate(X), np.array(z), np.array(contexts), kept


def differences(X, z, contexts):
    return {
        c: X[(contexts == c) & (z == "f")].mean(0) - X[(contexts == c) & (z == "m")].mean(0)
        for c in np.unique(contexts)
    }


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["cv", "ledoit_wolf", 0.0, 0.5, 1.0]))
def test_differences_vanish_in_contexts_to_erase_and_stay_exactly_elsewhere(seed, shrinkage):
    X, z, contexts, keep = in_contexts(seed=seed)
    eraser = PreservingEraser(shrinkage=shrinkage)
    after = eraser.fit(X, z, contexts=contexts, keep=keep).transform(X)
    erased = differences(after, z, contexts)
    for context, before in differences(X, z, contexts).items():
        if context.startswith("erase"):
            assert np.linalg.norm(before) > 0.5
            assert_allclose(erased[context], 0, atol=1e-7)
        else:
            assert_allclose(erased[context], before, atol=1e-7)
            here = contexts == context
            assert_allclose(after[here].mean(0), X[here].mean(0), atol=1e-7)


def test_with_nothing_to_keep_it_is_leace():
    X, z, *_ = in_contexts()
    preserving = PreservingEraser(shrinkage=0.2).fit(X, z)
    leace = LEACE(shrinkage=0.2).fit(X, z)
    assert_allclose(preserving.transform(X), leace.transform(X), atol=1e-8)
    assert preserving.angle_ == pytest.approx(np.pi / 2)


def test_a_conflict_is_reported_with_its_angle_and_resolved_by_a_strength():
    X, z, contexts, keep = in_contexts(noise=0.0)
    twin = contexts == "erase 0"
    X = np.vstack([X, X[twin] + 0.5])  # the same difference, now to be kept
    z = np.concatenate([z, z[twin]])
    contexts = np.concatenate([contexts, np.full(twin.sum(), "keep twin")])
    ids = {"contexts": contexts, "keep": [*keep, "keep twin"]}
    with pytest.raises(UserError, match=r"within .* rad of the one to keep \(min_angle = 0.01\)"):
        PreservingEraser().fit(X, z, **ids)
    soft = PreservingEraser(shrinkage=0.1, keep_strength=10.0)
    after = soft.fit(X, z, **ids).transform(X)
    assert soft.angle_ < 0.01
    assert np.linalg.norm(differences(after, z, contexts)["erase 0"]) < 1e-7


def test_the_best_choice_on_held_out_contexts_is_taken():
    X, z, contexts, keep = in_contexts(n_names=8, noise=1.0)
    ids = {"contexts": contexts, "keep": keep}
    eraser = PreservingEraser(rank="cv", keep_strength=10.0).fit(X, z, **ids)
    scores = {choice: s.mean() for choice, s in eraser.cv_scores_.items()}
    rank, amount = min(scores, key=scores.get)
    assert eraser.shrinkage_ == amount
    again = PreservingEraser(rank=rank, shrinkage=amount, keep_strength=10.0).fit(X, z, **ids)
    assert_array_equal(again.erasure_.right, eraser.erasure_.right)


def test_too_many_contexts_are_kept_by_the_means_of_their_families():
    d = 120
    # Each of `keep` would ask for two dimensions.
    X, z, contexts, keep = in_contexts(d=d, n_names=8, keep=d)
    half = keep[: d // 3]
    families = np.where(np.isin(contexts, half), "half", "rest")
    ids = {"contexts": contexts, "keep": keep, "families": families}
    eraser = PreservingEraser(rank=2).fit(X, z, **ids)
    before, after = (differences(rows, z, contexts) for rows in (X, eraser.erasure_(X)))
    moved = {c: after[c] - before[c] for c in keep}
    for family in (half, [c for c in keep if c not in half]):
        assert np.linalg.norm(np.mean([moved[c] for c in family], axis=0)) < 1e-9
        here = np.isin(contexts, family)
        assert_allclose(eraser.erasure_(X)[here].mean(0), X[here].mean(0), atol=1e-9)
    assert min(map(np.linalg.norm, moved.values())) > 1e-3
    assert eraser.note_.startswith("120 contexts to keep are kept by the means of 2 families")
    few = np.isin(contexts, [*keep[:20], *(c for c in contexts if c.startswith("erase"))])
    eraser.fit(X[few], z[few], contexts=contexts[few], keep=keep[:20])
    assert eraser.note_ == ""


@pytest.mark.parametrize("strength", [0.0, 0.7, 30.0, None])
def test_no_change_that_meets_the_demands_is_smaller(strength):
    """Against the problem as cvxpy states it."""
    X, z, contexts, keep = in_contexts(n_names=20, d=10, erase=2, keep=2)
    demanded = read_contexts(labelled_rows(X, z), contexts, keep).demands()
    eraser = PreservingEraser(shrinkage=0.0, keep_strength=strength)
    eraser.fit(X, z, contexts=contexts, keep=keep)
    A, B = demanded.erase, demanded.keep
    M = cp.Variable((10, 10))
    demands = [M @ A == A] if strength is not None else [M @ A == A, M @ B == 0]
    kept = (B * demanded.keep_weight) @ B.T
    root = np.linalg.cholesky(np.cov(X.T, bias=True) + (strength or 0.0) * kept)
    cp.Problem(cp.Minimize(cp.sum_squares(M @ root)), demands).solve(solver="CLARABEL")
    assert_allclose(eraser.erasure_.left @ eraser.erasure_.right, M.value, atol=1e-4)


def by_hand(X, z, contexts, people, keep, i, choice):
    """The three shares' sums of squares in one fold, of an eraser fitted anew without it."""
    fold = folds(read_contexts(labelled_rows(X, z), contexts, keep), people)[i]
    rank, amount, strength = choice
    sigma = np.cov(X.T, bias=True)
    shrunk = shrunk_covariance(sigma, amount)
    root = np.real(sqrtm(shrunk))
    A, B = fold.demands.erase, fold.demands.keep * np.sqrt(fold.demands.keep_weight)
    left, size, _ = np.linalg.svd(np.linalg.solve(root, A), full_matrices=False)
    A = root @ left[:, size > 1e-6 * size[0]][:, :rank]
    inverse = np.linalg.inv(shrunk + (1e9 if strength is None else strength) * B @ B.T)
    M = A @ np.linalg.solve(A.T @ inverse @ A, A.T @ inverse)
    remaining = np.eye(len(M)) - M
    terms = (remaining, fold.erase), (M, fold.keep), (M, sigma / np.trace(sigma))
    shares = [np.trace(applied @ square @ applied.T) for applied, square in terms]
    return [*shares, np.trace(fold.erase), np.trace(fold.keep)]


@pytest.mark.parametrize(
    ("strength", "erase", "known"),
    [(None, 6, True), (0.0, 6, False), (1.0, 6, True), (1.0, 18, False), (100.0, 6, True)],
)
def test_scores_are_the_three_shares_of_an_eraser_fitted_without_the_fold(strength, erase, known):
    """Also with more differences than features."""
    X, z, contexts, keep = in_contexts(n_names=12, erase=erase, keep=erase - 2, noise=1.0)
    people = np.char.add(z, np.tile(np.arange(12), len(X) // 12).astype(str)) if known else None
    eraser = PreservingEraser(rank="cv", keep_strength=strength)
    eraser.fit(X, z, contexts=contexts, keep=keep, people=people)
    for rank, amount in [(1, 0.1), (2, 1.0), (None, 0.6), (2, 1e-4)]:
        choice = rank, amount, strength
        sums = np.array([by_hand(X, z, contexts, people, keep, i, choice) for i in range(5)])
        whole = sums[:, 3:].mean(axis=0)
        expected = sums[:, 0] / whole[0] + sums[:, 1] / whole[1] + sums[:, 2]
        assert_allclose(eraser.cv_scores_[rank, amount], expected, rtol=1e-4)


def test_folds_share_neither_contexts_nor_people():
    """Each row encodes its person and context, so that means show their members."""
    rng = np.random.default_rng(0)
    people, contexts = np.tile(np.arange(20), 10), np.repeat(np.arange(10), 20)
    z = people % 2
    X = np.hstack([np.eye(20)[people], np.eye(10)[contexts]]) + 1e-9 * rng.normal(size=(200, 30))
    read = replace(read_contexts(labelled_rows(X, z), contexts, [8, 9]), X=X)
    assert len(folds(read, people)) == 5
    for fold in folds(read, people):
        fitted = np.abs(np.hstack([fold.demands.erase, fold.demands.keep])).max(axis=1) > 1e-6
        held_out = (np.abs(fold.erase) + np.abs(fold.keep)).max(axis=1) > 1e-6
        assert fitted[:20].sum() == 16
        assert held_out[:20].sum() == 4
        assert not (fitted & held_out)[:20].any()


@pytest.mark.parametrize(("count", "whole"), [(5, True), (7, True), (4, False)])
def test_of_five_families_or_more_a_fold_leaves_out_whole_ones(count, whole):
    """Each row says of which family it is, so that differences show which are in a fold."""
    contexts = np.repeat(np.arange(3 * count), 4)
    families, z = contexts % count, np.tile([0, 1], 6 * count)
    X = np.eye(count)[families] * np.where(z == 0, 1.0, -1.0)[:, None]
    made = folds(read_contexts(labelled_rows(X, z), contexts, []), families=families)
    seen = [np.diag(fold.erase) > 0 for fold in made]
    fitted = [np.abs(fold.demands.erase).max(axis=1) > 0 for fold in made]
    assert all((a ^ b).all() for a, b in zip(seen, fitted, strict=True)) == whole
    if whole:
        assert (np.sum(seen, axis=0) == 1).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6))
def test_the_bias_of_held_out_squares_is_subtracted(seed):
    """Where the groups are alike the unbiased squares are as often below zero as above."""
    rng = np.random.default_rng(seed)
    contexts, z = np.repeat(np.arange(400), 6), np.tile([0, 0, 0, 1, 1, 1], 400)
    rows = labelled_rows(rng.normal(size=(2400, 3)) * [1, 2, 3], z)
    read = read_contexts(rows, contexts, [])
    raw, unbiased = (read.differences(kept=False, unbiased=b) for b in (False, True))
    # Each of 400 differences has 2 x 1/2 x 1/3 of a row's variance: 133 of each coordinate's.
    assert_allclose(np.diag(raw), 133 * np.array([1, 4, 9]), rtol=0.4)
    assert (np.abs(np.diag(unbiased)) < 0.4 * np.diag(raw)).all()


def test_background_enters_the_covariance_and_nothing_else():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 6))
    contexts = np.repeat(["a", "b", "c", "kept"], 60)
    z = np.tile([0, 1], 120)
    X[z == 1] += rng.normal(size=6)
    loud = rng.normal(size=6)
    loud /= np.linalg.norm(loud)
    background = rng.normal(size=(500, 1)) * 100 * loud
    options = {"contexts": contexts, "keep": ["kept"]}
    eraser = PreservingEraser(shrinkage=0.0)
    plain = eraser.fit(X, z, **options).erasure_
    weighed = eraser.fit(X, z, **options, background=background).erasure_
    assert_array_equal(plain.mean, weighed.mean)
    for context in ("a", "b", "c"):
        here = contexts == context
        means = [weighed(X[here & (z == g)]).mean(axis=0) for g in (0, 1)]
        assert_allclose(*means, atol=1e-9)
    # What the background says is now dear to change: moving along it moves the output alike.
    change = [np.linalg.norm(e(e.mean + loud) - e.mean - loud) for e in (plain, weighed)]
    assert change[1] < 0.1 * change[0]
