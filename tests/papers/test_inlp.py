"""INLP against its paper's loop (Ravfogel et al. 2020, algorithm 1) over exact classifiers."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from countergen_edit.erasers import INLP


def textbook(X, z, rank):
    """Orthonormal directions of the loop: fit a classifier, project its rows out, repeat."""
    X, directions = X - X.mean(axis=0), np.zeros((0, X.shape[1]))
    while len(directions) < rank:
        W = LogisticRegression(solver="newton-cholesky", tol=1e-12).fit(X, z).coef_.T
        W = W - W.mean(axis=1, keepdims=True) if W.shape[1] > 1 else W
        W = W - directions.T @ (directions @ W)
        left, size, _ = np.linalg.svd(W, full_matrices=False)
        directions = np.vstack([directions, left.T[size > 1e-7 * size[0]]])[:rank]
        X = X - X @ directions.T @ directions
    return directions


def concept(c, scale):
    """Rows of several variances in which many directions tell the classes apart, a bit each."""
    rng = np.random.default_rng(c)
    z = np.arange(400) % c
    X = rng.normal(size=(400, 24)) * np.geomspace(2, 0.4, 24)
    return scale * (X + 0.5 * rng.normal(size=(c, 24))[z]), z


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize(("c", "rank"), [(2, 8), (3, 6)])
def test_the_default_is_converged(c, rank, scale):
    """Round by round: directions of late rounds show most what a classifier has not learned."""
    X, z = concept(c, scale)
    ours, theirs = INLP(rank=rank).fit(X, z).erasure_.right, textbook(X, z, rank)
    assert len(ours) == rank
    for k in range(c - 1, rank + 1, c - 1):
        cosines = np.linalg.svd(ours[:k] @ theirs[:k].T, compute_uv=False)
        assert cosines.min() > 1 - 1e-9, f"after {k} directions"
