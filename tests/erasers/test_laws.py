"""Laws that hold for every eraser, and for a random rotation of one."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from countergen_edit.erasers import ERASERS, AffineErasure
from countergen_edit.erasers.affine import randomly_rotated
from tests.erasers.conftest import TABLE, concept, is_orthogonal


def fitted(row, X, z):
    return clone(row.eraser).fit(X, z)


@pytest.mark.parametrize("c", [2, 4])
def test_an_erasure_is_a_projection_of_the_requested_rank(row, c):
    X, z = concept(c=c)
    eraser = fitted(row, X, z)
    assert eraser.rank_ == eraser.erasure_.rank == row.rank_of(c)
    once = eraser.transform(X)
    assert_allclose(eraser.transform(once), once, atol=1e-8)
    sizes = np.linalg.svd(once - once.mean(axis=0), compute_uv=False)
    assert (sizes > 1e-8 * sizes[0]).sum() == X.shape[1] - row.rank_of(c)


def test_mean_stays_where_it_is(row):
    X, z = concept()
    means = {
        "balanced": (X[z == 0].mean(axis=0) + X[z == 1].mean(axis=0)) / 2,
        "overall": X.mean(axis=0),
    }
    erasure, mean = fitted(row, X, z).erasure_, means[row.fixed]
    assert_allclose([erasure.mean, erasure(mean)], [mean, mean], atol=1e-10)


def test_orthogonal_erasers_leave_the_complement_untouched(row):
    X, z = concept()
    erasure = fitted(row, X, z).erasure_
    assert is_orthogonal(erasure) == row.orthogonal
    if row.orthogonal:
        basis = np.linalg.svd(erasure.right)[2][erasure.rank :]
        assert_allclose(erasure(X) @ basis.T, X @ basis.T, atol=1e-10)
        assert_allclose(erasure.left.T, erasure.right, atol=1e-10)


def test_a_row_does_not_depend_on_the_rows_beside_it(row):
    X, z = concept()
    eraser = fitted(row, X, z)
    whole = eraser.transform(X)
    parts = np.vstack([eraser.transform(X[:7]), eraser.transform(X[7:8]), eraser.transform(X[8:])])
    assert_allclose(parts, whole, atol=1e-12)
    assert_allclose(eraser.erasure_(X.reshape(6, 40, -1)).reshape(X.shape), whole)


def test_fit_is_deterministic_and_does_not_see_the_order_of_rows(row):
    X, z = concept()
    first, second = (fitted(row, X, z).erasure_ for _ in range(2))
    assert_array_equal(first.right, second.right)
    order = np.random.default_rng(1).permutation(len(X))
    assert_allclose(fitted(row, X[order], z[order]).transform(X), first(X), atol=2e-3)


@pytest.mark.parametrize("c", [2, 3])
def test_guarantee_present_before_and_erased_after(row, c):
    X, z = concept(n=160, d=8, c=c)
    majority = np.bincount(z).max() / len(z)
    assert LogisticRegression(max_iter=500).fit(X, z).score(X, z) > majority + 0.15
    eraser = fitted(row, X, z)
    erased = eraser.transform(X)
    certificate = eraser.certificate(X, z)
    means = np.stack([erased[z == g].mean(axis=0) for g in range(c)])
    coincide = np.allclose(means, means[0], atol=1e-8)
    assert certificate.guaranteed == coincide, certificate.reason
    assert coincide or not row.guaranteed
    if coincide:
        assert LogisticRegression(C=1e6, max_iter=500).fit(erased, z).score(erased, z) <= majority
        assert certificate.probe_loss == pytest.approx(certificate.label_entropy, abs=1e-9)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_torch_rows_come_back_as_torch_and_equal_numpy(row, dtype):
    X, z = concept(d=9)
    tensor = torch.tensor(X).to(getattr(torch, dtype))
    eraser = clone(row.eraser).fit(tensor, torch.tensor(z))
    erased = eraser.transform(tensor)
    assert erased.dtype == tensor.dtype
    reference = fitted(row, tensor.double().numpy(), z).transform(tensor.double().numpy())
    step = 2.0 ** {"float16": -10, "float32": -20, "float64": -40, "bfloat16": -7}[dtype]
    assert_allclose(erased.double().numpy(), reference, atol=10 * step)


@pytest.mark.parametrize("row", [name for name in TABLE if name != "random"], indirect=True)
def test_constant_features_are_left_alone(row):
    X, z = concept()
    wide = np.hstack([X, np.full((len(X), 1), 7.0)])
    assert_allclose(fitted(row, wide, z).transform(wide)[:, -1], 7.0, atol=1e-8)


def test_labels_are_any_and_pickle_and_clone_restore_the_same_map(row):
    X, z = concept()
    eraser = fitted(row, X, np.array(["woman", "man"])[z])
    assert list(eraser.classes_) == ["man", "woman"]
    assert_allclose(eraser.transform(X), fitted(row, X, z).transform(X), atol=2e-3)
    again = pickle.loads(pickle.dumps(eraser))
    assert_array_equal(again.transform(X), eraser.transform(X))
    assert clone(eraser).get_params() == row.eraser.get_params()


def test_every_registered_eraser_has_a_row():
    ours = [name for name in ERASERS if ".py:" not in name]  # of another test's file
    maps = {kind for name in ours if not (kind := ERASERS.get(name)).trains_weights}
    assert {type(row.eraser) for row in TABLE.values()} == maps


def oblique(d, k, seed):
    """A projection along other directions than it reads: R L = 1."""
    rng = np.random.default_rng(seed)
    right = rng.normal(size=(k, d))
    left = rng.normal(size=(d, k))
    return AffineErasure(left @ np.linalg.inv(right @ left), right, rng.normal(size=d))


@settings(max_examples=40)
@given(d=st.integers(3, 12), k=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_a_random_rotation_keeps_singular_values_product_and_mean(d, k, seed):
    k = min(k, d - 1)
    erasure = oblique(d, k, seed)
    turned = randomly_rotated(erasure, np.random.default_rng(seed + 1))
    sizes = [np.linalg.svd(e.left @ e.right, compute_uv=False) for e in (erasure, turned)]
    assert_allclose(sizes[1], sizes[0], atol=1e-8 * sizes[0][0])
    assert_allclose(turned.right @ turned.left, erasure.right @ erasure.left, atol=1e-8)
    assert_allclose(turned(erasure.mean), erasure.mean, atol=1e-8)
    assert turned.rank == erasure.rank


def test_a_random_rotation_is_uniform():
    """Over many draws the turned direction has no mean and the same spread along every axis."""
    erasure = AffineErasure(np.eye(4)[:, :1], np.eye(4)[:1], np.zeros(4))
    rng = np.random.default_rng(0)
    drawn = np.array([randomly_rotated(erasure, rng).right[0] for _ in range(2000)])
    assert_allclose(np.linalg.norm(drawn, axis=1), 1)
    # Signs of a QR are fixed, so that only the product left right is a uniform draw.
    assert_allclose(drawn.T @ drawn / len(drawn), np.eye(4) / 4, atol=0.03)
