"""A constant vector added at every token: activation addition, which steering vectors are.

    π(x) = x + v        v: [d]

Turner et al. 2023 (arXiv 2308.10248); Rimsky et al. 2024 (arXiv 2312.06681). It has no fixed point
and removes no dimension, so it is no erasure: x goes in, and what the groups differ by comes out as
it was. It has what the hook of an edit reads, the same as an `AffineErasure`. Refused: a vector
that is not finite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from countergen_edit.errors import UserError


@dataclass(frozen=True, eq=False)
class Shift:
    """The map `x + vector`, float64 and read-only.

    Written as erasures are, x - left (right x - offset): `right` reads nothing.

    >>> shift = Shift(np.array([1.0, 0.0]))
    >>> x = np.array([3.0, 5.0])
    >>> x - shift.left @ (shift.right @ x - shift.offset)
    array([4., 5.])
    """

    vector: Float[np.ndarray, " d"]

    def __post_init__(self) -> None:
        value = np.array(self.vector, dtype=np.float64)
        if value.ndim != 1 or not np.isfinite(value).all():
            raise UserError(f"a shift takes one finite vector [d], not one of shape {value.shape}")
        value.setflags(write=False)
        object.__setattr__(self, "vector", value)

    @property
    def rank(self) -> int:
        """How many dimensions are erased: none."""
        return 0

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.vector.shape[0])

    @property
    def gate(self) -> None:
        """None: it acts on every row alike."""
        return None

    @property
    def left(self) -> Float[np.ndarray, "d 1"]:
        return self.vector[:, None]

    @property
    def right(self) -> Float[np.ndarray, "1 d"]:
        return np.zeros((1, self.d))

    @property
    def offset(self) -> Float[np.ndarray, " 1"]:
        return np.ones(1)
