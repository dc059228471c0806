"""Random directions: the control of the same rank (CounterGen, Figure 1)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from countergen_edit.core.seeds import generator
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import BaseEraser
from countergen_edit.erasers.labelled import require_rank


class RandomDirections(BaseEraser):
    """Erase a uniformly drawn subspace, whatever the classes; mean: balanced over the groups.

    Parameters
    ----------
    rank : int
        Dimensions to erase.
    random_state : int
        Seed.

    Examples
    --------
    >>> X = np.eye(4)
    >>> erasure = RandomDirections(rank=2, random_state=1).fit(X, [0, 1, 0, 1]).erasure_
    >>> np.allclose(erasure.right @ erasure.left, np.eye(2))
    True
    """

    is_baseline: ClassVar[bool] = True

    no_guarantee_because = "random directions do not look at the classes"

    def __init__(self, rank: int = 1, *, random_state: int = 0) -> None:
        self.rank = rank
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> RandomDirections:
        """Draw the subspace; rows `X` `[n, d]` and classes `y` give only the mean."""
        rows = self._read(X, y)
        d = rows.X.shape[1]
        require_rank(self.rank, d)
        normal = generator(self.random_state, "random directions", d).normal(size=(d, self.rank))
        basis, _ = np.linalg.qr(normal)
        self._store(AffineErasure.orthogonal(basis.T, rows.balanced_mean), rows.classes)
        return self
