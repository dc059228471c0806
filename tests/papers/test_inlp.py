"""INLP against its paper's loop (Ravfogel et al. 2020, algorithm 1) over exact classifiers."""

import numpy as np
import pytest

from countergen_edit.erasers import INLP


def classifier(X, z, penalty):
    """The weights of the least mean log loss + penalty/2 ‖W‖², by Newton's method to rounding.

    A column for each class; of two classes one, for their log odds.
    """
    n, d = X.shape
    c = z.max() + 1
    m = 1 if c == 2 else c
    rows, target = np.hstack([np.ones((n, 1)), X]), np.eye(c)[z]
    ridge = np.kron(np.diag([0.0] + [penalty] * d), np.eye(m))
    theta = np.zeros((d + 1, m))

    def loss(theta):
        scores = rows @ theta
        scores = np.hstack([0 * scores, scores]) if m == 1 else scores
        log_p = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
        total = -(target * log_p).sum() / n + 0.5 * theta.ravel() @ ridge @ theta.ravel()
        return total, np.exp(log_p)

    for _ in range(100):
        value, p = loss(theta)
        slope = (rows.T @ (p - target)[:, -m:] / n).ravel() + ridge @ theta.ravel()
        p = p[:, -m:]
        each = p[:, :, None] * np.eye(m) - p[:, :, None] * p[:, None, :]
        hessian = np.einsum("ni,nj,nab->iajb", rows, rows, each).reshape(2 * [theta.size]) / n
        # A common shift of all intercepts changes nothing.
        step = np.linalg.lstsq(hessian + ridge, -slope, rcond=1e-13)[0].reshape(theta.shape)
        length = 1.0
        while loss(theta + length * step)[0] > value + 1e-15 and length > 1e-6:
            length /= 2
        theta = theta + length * step
        if np.abs(slope).max() < 1e-14:
            break
    return theta[1:]


def textbook(X, z, rank):
    """Orthonormal directions of the loop: fit a classifier, project its rows out, repeat."""
    X, directions = X - X.mean(axis=0), np.zeros((0, X.shape[1]))
    while len(directions) < rank:
        W = classifier(X, z, 1.0 / len(X))
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
    for k in range(c - 1, rank + 1, c - 1):
        cosines = np.linalg.svd(ours[:k] @ theirs[:k].T, compute_uv=False)
        assert cosines.min() > 1 - 1e-9, f"after {k} directions"
