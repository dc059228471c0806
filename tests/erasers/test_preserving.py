"""The preserving eraser keeps what it is told to keep, erases the rest, and changes least."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from countergen_edit.erasers import LEACE, PreservingEraser, preserving_cvxpy
from countergen_edit.errors import UserError


def in_contexts(n_names=30, d=24, erase=6, keep=2, noise=0.3, seed=0):
    """Rows per (context, group, name), differing along one plane or, to be kept, another."""
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
    return np.concatenate(X), np.array(z), np.array(contexts)


def kept_ids(contexts):
    return [c for c in np.unique(contexts) if c.startswith("keep")]


def differences(X, z, contexts):
    return {
        c: X[(contexts == c) & (z == "f")].mean(0) - X[(contexts == c) & (z == "m")].mean(0)
        for c in np.unique(contexts)
    }


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["cv", "ledoit_wolf", 0.0, 0.5, 1.0]))
def test_differences_vanish_where_asked_and_stay_exactly_elsewhere(seed, shrinkage):
    X, z, contexts = in_contexts(seed=seed)
    eraser = PreservingEraser(shrinkage=shrinkage)
    eraser.fit(X, z, contexts=contexts, keep=kept_ids(contexts))
    after = eraser.transform(X)
    before, erased = differences(X, z, contexts), differences(after, z, contexts)
    for context in np.unique(contexts):
        if context.startswith("erase"):
            assert np.linalg.norm(before[context]) > 0.5
            np.testing.assert_allclose(erased[context], 0, atol=1e-7)
        else:
            np.testing.assert_allclose(erased[context], before[context], atol=1e-7)
            here = contexts == context
            np.testing.assert_allclose(after[here].mean(0), X[here].mean(0), atol=1e-7)


def test_no_change_that_meets_the_demands_is_smaller():
    """Against cvxpy's statement of the problem, and against a search of the null space."""
    X, z, contexts = in_contexts(n_names=20, d=10, erase=2, keep=1)
    eraser = PreservingEraser(shrinkage=0.0)
    eraser.fit(X, z, contexts=contexts, keep=kept_ids(contexts))
    M = eraser.erasure_.left @ eraser.erasure_.right
    centred = X - X.mean(axis=0)
    variances, axes = np.linalg.eigh(centred.T @ centred / len(X))
    by_context = differences(X, z, contexts)
    A = np.stack([v for c, v in by_context.items() if c.startswith("erase")], axis=1)
    here = contexts == "keep 2"
    B = np.stack([by_context["keep 2"], X[here].mean(axis=0) - eraser.erasure_.mean], axis=1)
    oracle = preserving_cvxpy(axes.T @ A, axes.T @ B, np.sqrt(variances))
    np.testing.assert_allclose(axes.T @ M @ axes, oracle, atol=1e-4)
    free = np.linalg.svd(np.hstack([A, B]).T)[2][4:]  # M + K·free meets the same demands
    root = np.linalg.cholesky(axes * variances @ axes.T)

    def change(K):
        return ((M + K.reshape(10, -1) @ free) @ root).ravel() @ (
            (M + K.reshape(10, -1) @ free) @ root
        ).ravel()

    zero = np.zeros(10 * len(free))
    assert minimize(change, zero, method="L-BFGS-B").fun == pytest.approx(change(zero), rel=1e-6)


def test_with_nothing_to_keep_it_is_leace():
    X, z, _ = in_contexts()
    preserving = PreservingEraser(shrinkage=0.2).fit(X, z)
    leace = LEACE(shrinkage=0.2).fit(X, z)
    np.testing.assert_allclose(preserving.transform(X), leace.transform(X), atol=1e-8)
    assert preserving.angle_ == pytest.approx(np.pi / 2)


def test_conflict_is_reported_with_its_angle_and_resolved_only_on_request():
    X, z, contexts = in_contexts(noise=0.0)
    twin = contexts == "erase 0"
    X = np.vstack([X, X[twin] + 0.5])  # the same difference, now to be kept
    z = np.concatenate([z, z[twin]])
    contexts = np.concatenate([contexts, np.full(twin.sum(), "keep twin")])
    keep = kept_ids(contexts)
    with pytest.raises(UserError, match=r"within .* rad of what must stay \(min_angle = 0.01\)"):
        PreservingEraser().fit(X, z, contexts=contexts, keep=keep)


def test_keep_within_trades_what_is_kept_for_a_smaller_change():
    X, z, contexts = in_contexts(n_names=15, d=12, erase=4, noise=1.0)
    sizes = []
    for within in (0.0, 0.2, 0.6):
        eraser = PreservingEraser(shrinkage=0.0, keep_within=within)
        eraser.fit(X, z, contexts=contexts, keep=kept_ids(contexts))
        after = differences(eraser.transform(X), z, contexts)
        np.testing.assert_allclose(after["erase 0"], 0, atol=1e-5)
        sizes.append(np.linalg.norm(eraser.transform(X) - X))
    assert sizes[0] > sizes[1] > sizes[2]


def test_boolean_keep_equals_ids_and_rank_truncates():
    X, z, contexts = in_contexts()
    keep = kept_ids(contexts)
    by_id = PreservingEraser(shrinkage=0.1).fit(X, z, contexts=contexts, keep=keep)
    rows = np.isin(contexts, keep)
    by_row = PreservingEraser(shrinkage=0.1).fit(X, z, contexts=contexts, keep=rows)
    np.testing.assert_array_equal(by_id.erasure_.right, by_row.erasure_.right)
    low = PreservingEraser(shrinkage=0.1, rank=2).fit(X, z, contexts=contexts, keep=keep)
    assert low.rank_ == 2 < by_id.rank_


def test_shrinkage_chosen_by_held_out_contexts_is_the_best_of_the_grid_there():
    X, z, contexts = in_contexts(n_names=8, noise=1.0)
    keep = kept_ids(contexts)
    eraser = PreservingEraser(shrinkage="cv").fit(X, z, contexts=contexts, keep=keep)
    best = min(eraser.cv_scores_.values(), key=np.mean)
    limit = best.mean() + best.std(ddof=1) / np.sqrt(len(best))
    close = [amount for (_, amount), s in eraser.cv_scores_.items() if s.mean() <= limit]
    assert eraser.shrinkage_ == max(close)
    again = PreservingEraser(shrinkage="cv").fit(X, z, contexts=contexts, keep=keep)
    assert again.shrinkage_ == eraser.shrinkage_


def test_a_rank_chosen_by_held_out_contexts_is_the_smallest_that_is_as_good():
    """Contexts that agree in two directions; what else tells them apart is sampling noise."""
    rng = np.random.default_rng(1)
    shared, z = rng.normal(size=(2, 40)), np.tile([-1.0, 1.0], 30)
    X = [
        rng.normal(size=(60, 40)) + 0.5 * np.outer(z, rng.normal(size=2) @ shared * 2)
        for _ in range(10)
    ]
    eraser = PreservingEraser(rank="cv").fit(
        np.vstack(X), np.tile(z, 10), contexts=np.repeat(np.arange(10), 60)
    )
    best = min(eraser.cv_scores_.values(), key=np.mean)
    limit = best.mean() + best.std(ddof=1) / np.sqrt(len(best))
    assert eraser.rank_ == 2
    assert min(s.mean() for (rank, _), s in eraser.cv_scores_.items() if rank == 1) > limit


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
    np.testing.assert_array_equal(plain.mean, weighed.mean)
    for context in ("a", "b", "c"):
        here = contexts == context
        means = [weighed(X[here & (z == g)]).mean(axis=0) for g in (0, 1)]
        np.testing.assert_allclose(*means, atol=1e-9)
    # What the background says is now dear to change: moving along it moves the output alike.
    change = [np.linalg.norm(e(e.mean + loud) - e.mean - loud) for e in (plain, weighed)]
    assert change[1] < 0.1 * change[0]


def test_a_background_of_another_width_is_refused():
    X = np.random.default_rng(0).normal(size=(20, 4))
    with pytest.raises(UserError, match="features"):
        PreservingEraser().fit(X, np.tile([0, 1], 10), background=np.ones((5, 3)))
