"""The result of every eraser: a thin affine map, optionally gated.

    π(x) = x - g(x) L R (x - m)        L: [d, k], R: [k, d], m: [d], g(x) in [0, 1]

Orthogonal methods have L = Rᵀ with orthonormal rows of R (CounterGen, section 3.4); LEACE and
preserving erasure are oblique. m is fixed when the eraser is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from countergen_edit.core.errors import UserError


@dataclass(frozen=True, eq=False)
class Gate:
    """The gate g(x) = min(1, max(0, weight · x + bias)) over the last axis; float64, read-only.

    Parameters
    ----------
    weight : array of shape (d,)
    bias : float

    Raises
    ------
    UserError
        If a value is not finite, or the weight is not a vector.

    Examples
    --------
    >>> Gate(np.array([1.0, 0.0]), 0.5)(np.array([[0.25, 9.0], [2.0, 9.0], [-2.0, 9.0]]))
    array([0.75, 1.  , 0.  ])
    """

    weight: Float[np.ndarray, " d"]
    bias: float

    def __post_init__(self) -> None:
        weight = np.array(self.weight, dtype=np.float64)
        if weight.ndim != 1 or not (np.isfinite(weight).all() and np.isfinite(self.bias)):
            raise UserError(
                f"a gate takes one finite weight a feature and a finite bias, not a weight of "
                f"shape {weight.shape} and bias {self.bias}"
            )
        weight.setflags(write=False)
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", float(self.bias))

    def __call__(self, x: Any) -> Any:
        """Return g at each row of an array or tensor `[..., d]`, in the dtype of `x`."""
        if isinstance(x, Tensor):
            weight, bias = (
                torch.tensor(v, dtype=x.dtype, device=x.device) for v in (self.weight, self.bias)
            )
            return (x @ weight + bias).clamp(0.0, 1.0)
        dtype = x.dtype
        return np.clip(x @ self.weight.astype(dtype) + dtype.type(self.bias), 0.0, 1.0)

    def __reduce__(self) -> tuple[Any, ...]:
        return Gate, (self.weight, self.bias)


@dataclass(frozen=True, eq=False)
class AffineErasure:
    """The affine map `x - left · right · (x - mean)` over the last axis; float64, read-only.

    Parameters
    ----------
    left : array of shape (d, k)
    right : array of shape (k, d)
    mean : array of shape (d,)
        The fixed point of the map.
    gate : Gate, optional
        Scales the change of each row; None changes all rows fully.

    Raises
    ------
    UserError
        If the shapes do not fit together or a value is not finite.

    Examples
    --------
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
        for name in ("left", "right", "mean"):
            value = np.array(getattr(self, name), dtype=np.float64)
            if not np.isfinite(value).all():
                raise UserError(f"{name} of an erasure holds NaN or infinity: fit it again")
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        shapes = self.left.shape, self.right.shape, self.mean.shape
        if self.left.ndim != 2 or shapes[1:] != (shapes[0][::-1], shapes[0][:1]):
            raise UserError(
                f"shapes {shapes} are no erasure: give left [d, k], right [k, d], mean [d]"
            )
        if self.gate is not None and self.gate.weight.shape != shapes[2]:
            raise UserError(f"the gate reads {len(self.gate.weight)} features of {self.d}")

    @classmethod
    def orthogonal(
        cls, directions: Float[np.ndarray, "k d"], mean: Float[np.ndarray, " d"]
    ) -> AffineErasure:
        """Mean ablation of the span of `directions`, which must be orthonormal rows."""
        return cls(directions.T, directions, mean)

    @property
    def rank(self) -> int:
        """Number of erased dimensions, k."""
        return int(self.right.shape[0])

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.mean.shape[0])

    @property
    def offset(self) -> Float[np.ndarray, " k"]:
        """`right · mean`, rounded the same whatever the memory layout of `right`."""
        offset: Float[np.ndarray, " k"] = np.ascontiguousarray(self.right) @ self.mean
        return offset

    def __call__(self, x: Any) -> Any:
        """Erase an array or torch tensor of shape `[..., d]`.

        Computes in float32 at least; returns the dtype (float64 for integers) and device of `x`.

        Raises
        ------
        UserError
            If the last axis does not have length d.
        """
        x = x if isinstance(x, Tensor) else np.asarray(x)
        if not x.ndim or x.shape[-1] != self.d:
            raise UserError(
                f"rows of shape {tuple(x.shape)} do not fit an erasure of {self.d} features: "
                "pass activations of the site it was fitted on"
            )
        if isinstance(x, Tensor):
            dtype: Any = x.dtype if x.is_floating_point() else torch.float64
            wide: Any = x.to(torch.promote_types(dtype, torch.float32))
            parts: Any = (
                torch.tensor(v, dtype=wide.dtype, device=x.device)
                for v in (self.left, self.right, self.mean)
            )
        else:
            dtype = x.dtype if np.issubdtype(x.dtype, np.floating) else np.dtype(np.float64)
            wide = x.astype(np.promote_types(dtype, np.float32), copy=False)
            parts = (v.astype(wide.dtype) for v in (self.left, self.right, self.mean))
        left, right, mean = parts
        change = ((wide - mean) @ right.T) @ left.T
        if self.gate is not None:
            change = self.gate(wide)[..., None] * change
        erased = wide - change
        return erased.to(dtype) if isinstance(x, Tensor) else erased.astype(dtype, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return AffineErasure, (self.left, self.right, self.mean, self.gate)


def randomly_rotated(erasure: AffineErasure, rng: np.random.Generator) -> AffineErasure:
    """Rotate an erasure at random: L → Q L and R → R Qᵀ for a uniform orthogonal Q.

    Singular values of L R, the product R L, mean and gate stay. Only the image under Q of the span
    of L and Rᵀ is drawn: at most 2 k uniform orthonormal directions.

    >>> map = AffineErasure(np.eye(4)[:, :1], np.array([[1.0, 2.0, 0.0, 0.0]]), np.zeros(4))
    >>> other = randomly_rotated(map, np.random.default_rng(0))
    >>> sizes = [np.linalg.svd(e.left @ e.right, compute_uv=False)[0] for e in (map, other)]
    >>> np.round(sizes, 6).tolist(), np.round(other.right @ other.left, 6).tolist()
    ([2.236068, 2.236068], [[1.0]])
    """
    basis, _ = np.linalg.qr(np.hstack([erasure.left, erasure.right.T]))
    frame, _ = np.linalg.qr(rng.normal(size=basis.shape))
    left = frame @ (basis.T @ erasure.left)
    right = (erasure.right @ basis) @ frame.T
    return replace(erasure, left=left, right=right)
