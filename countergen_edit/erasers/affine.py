"""One value carries every erasure: a thin affine map and the mean it turns about.

    π(x) = x - L R (x - m)        L: [d, k], R: [k, d], m: [d]

Orthogonal methods have L = Rᵀ with orthonormal rows of R (CounterGen, section 3.4, where m is the
mean over both groups); LEACE and preserving erasure are oblique. m is frozen at fit time, so the
map of one row never depends on the rows beside it. With a gate (`erasers.gate`) it acts on each row
in the measure in which the gate is open there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
from jaxtyping import Float

from countergen_edit.erasers.gate import Gate
from countergen_edit.errors import UserError

Array = TypeVar("Array")


@dataclass(frozen=True, eq=False)
class AffineErasure:
    """The affine map `x - left · right · (x - mean)` over the last axis, float64 and read-only.

    Args:
        left: `[d, k]`, what is subtracted.
        right: `[k, d]`, how much of it, read off `x - mean`.
        mean: `[d]`, the fixed point; the map sends it to itself.
        gate: how far it acts on a row; None acts on all alike.

    Raises:
        UserError: shapes that do not fit together, or a value that is not finite.

    >>> x = np.array([[3.0, 1.0], [5.0, 1.0]])
    >>> AffineErasure(np.array([[1.0], [0.0]]), np.array([[1.0, 0.0]]), np.array([4.0, 0.0]))(x)
    array([[4., 1.],
           [4., 1.]])
    """

    left: Float[np.ndarray, "d k"]
    right: Float[np.ndarray, "k d"]
    mean: Float[np.ndarray, " d"]
    gate: Gate | None = None
    _on_device: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("left", "right", "mean"):
            value = np.array(getattr(self, name), dtype=np.float64)
            if not np.isfinite(value).all():
                raise UserError(f"{name} of an erasure holds NaN or infinity: fit it again")
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        shapes = self.left.shape, self.right.shape, self.mean.shape
        if self.mean.ndim != 1 or self.left.ndim != 2 or shapes[0] != shapes[1][::-1]:
            raise UserError(
                f"shapes {shapes} are no erasure: give left [d, k], right [k, d], mean [d]"
            )
        if self.d != shapes[0][0]:
            raise UserError(
                f"mean has {self.d} entries but left has {shapes[0][0]} rows: both are d"
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
        """How many dimensions are erased, `k`."""
        return int(self.right.shape[0])

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.mean.shape[0])

    @property
    def offset(self) -> Float[np.ndarray, " k"]:
        """`right · mean`, rounded the same however the memory of `right` is laid out."""
        offset: Float[np.ndarray, " k"] = np.ascontiguousarray(self.right) @ self.mean
        return offset

    def __call__(self, x: Array) -> Array:
        """Erase the last axis of a NumPy array or torch tensor of shape `[..., d]`.

        Computes in float32 at least, and gives back the dtype and device of `x` (float64 where `x`
        holds integers).

        Raises:
            UserError: the last axis is not `d` long.
        """
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(x, torch.Tensor):
            return cast("Array", self._erase_tensor(torch, x))
        return cast("Array", self._erase_array(np.asarray(x)))

    def _erase_array(self, x: np.ndarray) -> np.ndarray:
        self._require_width(x.shape)
        dtype = x.dtype if np.issubdtype(x.dtype, np.floating) else np.dtype(np.float64)
        compute = np.promote_types(dtype, np.float32)
        left, right, mean = (v.astype(compute) for v in (self.left, self.right, self.mean))
        wide = x.astype(compute, copy=False)
        change: np.ndarray = ((wide - mean) @ right.T) @ left.T
        if self.gate is not None:
            change = self.gate(wide)[..., None] * change
        erased: np.ndarray = wide - change
        return erased.astype(dtype, copy=False)

    def _erase_tensor(self, torch: Any, x: Any) -> Any:
        self._require_width(tuple(x.shape))
        dtype = x.dtype if x.is_floating_point() else torch.float64
        compute = torch.promote_types(dtype, torch.float32)
        key = (x.device, compute)
        if key not in self._on_device:  # a hook calls this at every step of a generation
            self._on_device[key] = tuple(
                torch.tensor(v, dtype=compute, device=x.device)
                for v in (self.left, self.right, self.mean)
            )
        left, right, mean = self._on_device[key]
        wide = x.to(compute)
        change = ((wide - mean) @ right.T) @ left.T
        if self.gate is not None:
            change = self.gate(wide)[..., None] * change
        return (wide - change).to(dtype)

    def _require_width(self, shape: tuple[int, ...]) -> None:
        if not shape or shape[-1] != self.d:
            raise UserError(
                f"rows of shape {tuple(shape)} do not fit an erasure of {self.d} features: "
                "pass activations of the site it was fitted on"
            )

    def __getstate__(self) -> dict[str, Any]:
        parts = ("left", "right", "mean", "gate")
        return {part: getattr(self, part) for part in parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "_on_device": {}}.items():
            object.__setattr__(self, name, value)
        self.__post_init__()
