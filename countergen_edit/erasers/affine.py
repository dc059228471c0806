"""The result of every eraser: a thin affine map, optionally gated.

    π(x) = x - g(x) L R (x - m)        L: [d, k], R: [k, d], m: [d], g(x) in [0, 1]

Orthogonal methods have L = Rᵀ with orthonormal rows (CounterGen, section 3.4); others are oblique.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from countergen_edit.core.errors import UserError

Constants = tuple[Tensor, Tensor, Tensor]
"""`left`, `right` and `offset` of a map."""


def freeze(owner: object, kind: str, **axes: int) -> None:
    """Store attributes as read-only float64; `UserError` unless finite and of as many axes."""
    for name, ndim in axes.items():
        value = np.array(getattr(owner, name), dtype=np.float64)
        if value.ndim != ndim or not np.isfinite(value).all():
            raise UserError(
                f"{name} of {kind} must have {ndim} axes and be finite, not shape {value.shape}"
                f"{'' if np.isfinite(value).all() else ' with NaN or infinity'}"
            )
        value.setflags(write=False)
        object.__setattr__(owner, name, value)


@dataclass(frozen=True, eq=False)
class Gate:
    """The gate g(x) = min(1, max(0, weight · x + bias)) over the last axis; float64, read-only.

    `UserError` if a value is not finite, or the weight is not a vector.

    >>> Gate(np.array([1.0, 0.0]), 0.5)(np.array([[0.25, 9.0], [2.0, 9.0], [-2.0, 9.0]]))
    array([0.75, 1.  , 0.  ])
    """

    weight: Float[np.ndarray, " d"]
    bias: float

    def __post_init__(self) -> None:
        freeze(self, "a gate", weight=1, bias=0)
        object.__setattr__(self, "bias", float(self.bias))

    def __call__(self, x: Any) -> Any:
        """g at each row of an array or tensor `[..., d]`, in its dtype."""
        if isinstance(x, Tensor):
            weight = torch.tensor(self.weight, dtype=x.dtype, device=x.device)
            bias = torch.tensor(self.bias, dtype=x.dtype, device=x.device)
            return (x @ weight + bias).clamp(0.0, 1.0)
        return np.clip(x @ self.weight.astype(x.dtype) + x.dtype.type(self.bias), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class AffineErasure:
    """The affine map `x - left · right · (x - mean)` over the last axis; float64, read-only.

    `mean` is the fixed point; `gate` scales the change of each row. `UserError` for unfit shapes.

    >>> x = np.array([[3.0, 1.0], [5.0, 1.0]])
    >>> AffineErasure(np.array([[1.0], [0.0]]), np.array([[1.0, 0.0]]), np.array([4.0, 0.0]))(x)
    array([[4., 1.],
           [4., 1.]])
    """

    left: Float[np.ndarray, "d k"]
    right: Float[np.ndarray, "k d"]
    mean: Float[np.ndarray, " d"]
    gate: Gate | None = None

    def __post_init__(self) -> None:
        freeze(self, "an erasure", left=2, right=2, mean=1)
        shapes = self.left.shape, self.right.shape, self.mean.shape
        if shapes[1:] != (shapes[0][::-1], shapes[0][:1]):
            raise UserError(f"an erasure has left [d, k], right [k, d], mean [d], not {shapes}")
        if self.gate is not None and self.gate.weight.shape != shapes[2]:
            raise UserError(f"the gate reads {len(self.gate.weight)} features of {self.d}")

    @classmethod
    def orthogonal(
        cls, directions: Float[np.ndarray, "k d"], mean: Float[np.ndarray, " d"]
    ) -> AffineErasure:
        """Mean ablation of the span of orthonormal rows."""
        return cls(directions.T, directions, mean)

    @property
    def rank(self) -> int:
        return len(self.right)

    @property
    def d(self) -> int:
        return len(self.mean)

    @property
    def offset(self) -> Float[np.ndarray, " k"]:
        """`right · mean`, rounded the same whatever the memory layout of `right`."""
        offset: Float[np.ndarray, " k"] = np.ascontiguousarray(self.right) @ self.mean
        return offset

    @property
    def linear(self) -> AffineErasure:
        """The map with mean 0, `x - left · right · x`."""
        return replace(self, mean=np.zeros(self.d))

    def __call__(self, x: Any) -> Any:
        """Erase an array or torch tensor of shape `[..., d]`, in its dtype and on its device.

        Computes in float32 at least; integers become float64. `UserError` for another d.
        """
        x = x if isinstance(x, Tensor) else np.asarray(x)
        if not x.ndim or x.shape[-1] != self.d:
            raise UserError(
                f"rows of shape {tuple(x.shape)} do not fit an erasure of {self.d} features: "
                "pass activations of the site it was fitted on"
            )
        if isinstance(x, Tensor):
            x = x if x.is_floating_point() else x.double()
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            return erase_tensor(wide, constants(self, wide), self.gate).to(x.dtype)
        x = x if np.issubdtype(x.dtype, np.floating) else x.astype(np.float64)
        rows = x.astype(np.promote_types(x.dtype, np.float32), copy=False)
        left, right, mean = (v.astype(rows.dtype) for v in (self.left, self.right, self.mean))
        change = ((rows - mean) @ right.T) @ left.T
        if self.gate is not None:
            change = self.gate(rows)[..., None] * change
        return (rows - change).astype(x.dtype, copy=False)


def constants(erasure: Any, like: Tensor) -> Constants:
    """`left`, `right` and `offset` of a map in the dtype and on the device of `like`."""
    # Row by row, as in files: another memory layout is rounded differently.
    left, right, offset = (
        torch.tensor(np.ascontiguousarray(a), device=like.device, dtype=like.dtype)
        for a in (erasure.left, erasure.right, erasure.offset)
    )
    return left, right, offset


def erase_tensor(
    x: Float[Tensor, "*batch d"], constants: Constants, gate: Gate | None
) -> Float[Tensor, "*batch d"]:
    """x - g(x) left (right x - offset)."""
    left, right, offset = constants
    change = (x @ right.T - offset) @ left.T
    return x - (change if gate is None else gate(x)[..., None] * change)


def randomly_rotated(erasure: AffineErasure, rng: np.random.Generator) -> AffineErasure:
    """Rotate an erasure at random: L → Q L and R → R Qᵀ for a uniform orthogonal Q.

    Only the image under Q of the span of L and Rᵀ is drawn: at most 2 k orthonormal directions.

    >>> map = AffineErasure(np.eye(4)[:, :1], np.array([[1.0, 2.0, 0.0, 0.0]]), np.zeros(4))
    >>> other = randomly_rotated(map, np.random.default_rng(0))
    >>> np.round(other.right @ other.left, 6).tolist()
    [[1.0]]
    """
    basis, _ = np.linalg.qr(np.hstack([erasure.left, erasure.right.T]))
    frame, _ = np.linalg.qr(rng.normal(size=basis.shape))
    left = frame @ (basis.T @ erasure.left)
    return replace(erasure, left=left, right=(erasure.right @ basis) @ frame.T)
