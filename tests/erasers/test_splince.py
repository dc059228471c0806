"""SPLINCE erases one covariance, keeps another, and changes least."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from countergen_edit.erasers import LEACE, SPLINCE


def erase_and_keep(n=120, d=6, c=2, seed=0):
    """Rows to erase, then rows to keep, whose classes differ partly alike."""
    rng = np.random.default_rng(seed)
    z, keep = rng.integers(0, c, size=n), np.arange(n) >= 0.7 * n
    erase, shared, kept = rng.normal(size=(3, c, d))
    differ = np.where(keep[:, None], kept[z], erase[z]) + shared[z]
    mix = rng.normal(size=(d, d)) / np.sqrt(d)
    return rng.normal(size=(n, d)) @ mix + 1.5 * differ + 3.0 + keep[:, None], z, keep


def cross_covariance(X, z):
    """The d × c matrix cov(x, z) of one-hot z."""
    Z = np.eye(z.max() + 1)[z]
    return (X - X.mean(axis=0)).T @ (Z - Z.mean(axis=0)) / len(X)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    c=st.integers(2, 3),
    shrinkage=st.sampled_from(["optimal", 0.0, 0.3, 1.0]),
    shift=st.sampled_from([0.0, 1e4]),
    scale=st.sampled_from([1e-3, 1.0, 1e5]),
)
def test_one_covariance_is_removed_and_the_other_is_kept(seed, c, shrinkage, shift, scale):
    X, z, keep = erase_and_keep(c=c, d=8, seed=seed)
    X = scale * (X + shift)
    after = SPLINCE(shrinkage=shrinkage).fit(X, z, keep=keep).transform(X)
    size = np.linalg.norm(cross_covariance(X[~keep], z[~keep]))
    assert size > 0.1 * scale
    rounding = 1e-8 * (1 + shift) * size
    assert np.linalg.norm(cross_covariance(after[~keep], z[~keep])) < rounding
    kept = cross_covariance(X[keep], z[keep])
    assert_allclose(cross_covariance(after[keep], z[keep]), kept, atol=rounding)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from(["optimal", 0.0, 1.0]))
def test_with_nothing_to_keep_it_is_leace(seed, c, shrinkage):
    X, z, _ = erase_and_keep(c=c, seed=seed)
    leace = LEACE(shrinkage=shrinkage).fit(X, z).transform(X)
    for nothing in (None, np.zeros(len(X), dtype=bool)):
        splince = SPLINCE(shrinkage=shrinkage).fit(X, z, keep=nothing)
        assert_allclose(splince.transform(X), leace, atol=1e-8)
        assert splince.angle_ == pytest.approx(np.pi / 2)


@pytest.mark.parametrize("c", [2, 3])
def test_it_is_the_affine_map_that_a_convex_solver_finds(c):
    """The problem as it is stated: any P and b, the two covariances, rows and background."""
    X, z, keep = erase_and_keep(n=60, d=5, c=c)
    background = np.random.default_rng(1).normal(size=(30, 5)) * [1, 2, 3, 4, 5]
    rows = np.vstack([X, background])
    P, b = cp.Variable((5, 5)), cp.Variable((1, 5))
    erase, kept = (cross_covariance(X[part], z[part]) for part in (~keep, keep))
    moved = rows @ P.T + np.ones((90, 1)) @ b - rows
    problem = cp.Problem(cp.Minimize(cp.sum_squares(moved)), [P @ erase == 0, P @ kept == kept])
    problem.solve(solver="CLARABEL")
    eraser = SPLINCE(shrinkage=0.0).fit(X, z, keep=keep, background=background)
    change = ((eraser.transform(rows) - rows) ** 2).sum()
    assert change == pytest.approx(problem.value, rel=1e-6)
    assert_allclose(eraser.transform(rows), rows @ P.value.T + b.value, atol=1e-4)


def test_more_dimensions_than_rows():
    X, z, keep = erase_and_keep(n=40, d=90)
    kept = cross_covariance(X[keep], z[keep])
    for shrinkage in ("optimal", 0.0):
        after = SPLINCE(shrinkage=shrinkage).fit(X, z, keep=keep).transform(X)
        assert np.abs(cross_covariance(after[~keep], z[~keep])).max() < 1e-10
        assert_allclose(cross_covariance(after[keep], z[keep]), kept, atol=1e-10)


def test_the_certificate_speaks_of_the_rows_that_were_to_be_erased():
    X, z, keep = erase_and_keep(n=400)
    eraser = SPLINCE().fit(X, z, keep=keep)
    erase = eraser.certificate(X, z, fit_params={"keep": keep}, probed=~keep)
    assert erase.guaranteed, erase.reason
    assert erase.linear_accuracy_before > erase.majority_rate + 0.1 > erase.linear_accuracy_after
    everything = eraser.certificate(X, z, fit_params={"keep": keep})
    assert not everything.guaranteed
    assert everything.reason.endswith("rows that are kept keep their covariance with the group")
    after, kept = eraser.transform(X)[keep], LogisticRegression(max_iter=500)
    assert kept.fit(after, z[keep]).score(after, z[keep]) > 0.6
