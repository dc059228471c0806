"""A map that is turned at random is as large as it was, and points elsewhere."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from countergen_edit.erasers import AffineErasure
from countergen_edit.erasers.turning import turned


def oblique(d: int, k: int, seed: int) -> AffineErasure:
    """A projection along other directions than it reads: R L = 1."""
    rng = np.random.default_rng(seed)
    right = rng.normal(size=(k, d))
    left = rng.normal(size=(d, k))
    return AffineErasure(left @ np.linalg.inv(right @ left), right, rng.normal(size=d))


@settings(max_examples=40)
@given(d=st.integers(3, 12), k=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_it_keeps_singular_values_what_it_reads_of_itself_and_its_mean(
    d: int, k: int, seed: int
) -> None:
    k = min(k, d - 1)
    own = oblique(d, k, seed)
    other = turned(own, np.random.default_rng(seed + 1))
    sizes = [np.linalg.svd(e.left @ e.right, compute_uv=False) for e in (own, other)]
    np.testing.assert_allclose(sizes[1], sizes[0], atol=1e-8 * sizes[0][0])
    np.testing.assert_allclose(other.right @ other.left, own.right @ own.left, atol=1e-8)
    np.testing.assert_allclose(other(own.mean), own.mean, atol=1e-8)
    assert other.rank == own.rank


def test_it_points_anywhere_with_equal_chance() -> None:
    """Over many draws the turned direction has no mean and the same spread along every axis."""
    own = AffineErasure(np.eye(4)[:, :1], np.eye(4)[:1], np.zeros(4))
    rng = np.random.default_rng(0)
    drawn = np.array([turned(own, rng).right[0] for _ in range(4000)])
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1)
    np.testing.assert_allclose(drawn.T @ drawn / len(drawn), np.eye(4) / 4, atol=0.02)
    # Signs of a QR are fixed, so that only the product left right is a uniform draw.
    maps = np.array([np.outer(x, x) for x in drawn])
    np.testing.assert_allclose(maps.mean(0), np.eye(4) / 4, atol=0.02)
