"""An erasure turned by a random rotation: a map of the same size that points anywhere.

    π'(x) = x - Q L R Qᵀ (x - m)

Q is drawn uniformly from the rotations and reflections of the space. L R keeps its singular values
and R L stays what it was, so that the map takes as much, obliquely where the fitted one does; only
where it points is chance. Comes in: an erasure. Goes out: another about the same mean, behind the
same gate.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from countergen_edit.erasers.affine import AffineErasure


def turned(erasure: AffineErasure, rng: np.random.Generator) -> AffineErasure:
    """The erasure between other directions, drawn by `rng`.

    Of Q only what it makes of the span of L and Rᵀ is drawn, at most 2 k of d directions: where a
    uniform rotation sends an orthonormal basis is a uniform frame.

    >>> map = AffineErasure(np.eye(4)[:, :1], np.array([[1.0, 2.0, 0.0, 0.0]]), np.zeros(4))
    >>> other = turned(map, np.random.default_rng(0))
    >>> sizes = [np.linalg.svd(e.left @ e.right, compute_uv=False)[0] for e in (map, other)]
    >>> np.round(sizes, 6).tolist(), np.round(other.right @ other.left, 6).tolist()
    ([2.236068, 2.236068], [[1.0]])
    """
    basis, _ = np.linalg.qr(np.hstack([erasure.left, erasure.right.T]))
    frame, _ = np.linalg.qr(rng.normal(size=basis.shape))
    left = frame @ (basis.T @ erasure.left)
    right = (erasure.right @ basis) @ frame.T
    return replace(erasure, left=left, right=right)
