"""Changed weights of a stock model as functions of the unedited ones, which lie in memory or files.

With y = W x + b the output of the last matrix of an attention layer or an MLP, the erasure
y - L R (y - m) is itself an affine map of x:

    W' = (I - L R) W        b' = (I - L R) b + L R m

That of a head stands before the matrix. With W_h its columns for the head:

    W_h' = W_h (I - L R)    b' = b + W_h L R m
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from countergen_edit.edits.update import Factors
from countergen_edit.erasers import AffineErasure
from countergen_edit.erasers.affine import constants, erase_tensor

Read = Callable[[str], Tensor]
"""An unedited parameter by its name, in float64."""


class EditedWeights(dict[str, Callable[[Read], Tensor]]):
    """The parameters that an edit changes, each computed in float64 when it is called."""

    def __missing__(self, name: str) -> Callable[[Read], Tensor]:
        """The unedited parameter."""
        return lambda read: read(name)

    def erase(self, name: str, axis: int, erasure: AffineErasure) -> None:
        """Erase the vectors along an axis of a parameter."""
        old = self[name]

        def erased(read: Read) -> Tensor:
            rows = old(read).movedim(axis, -1)
            return erase_tensor(rows, constants(erasure, rows), None).movedim(-1, axis)

        self[name] = erased

    def erase_inputs(
        self, matrix: str, axis: int, erasure: AffineErasure, of: slice, *, bias: bool
    ) -> None:
        """Fold an erasure of some inputs of a matrix, along an axis, into it and its bias."""
        old_weight, old_bias = self[f"{matrix}.weight"], self[f"{matrix}.bias"]

        def erased(read: Read) -> Tensor:
            weight = old_weight(read).movedim(axis, -1).clone()
            left, right, _ = constants(erasure, weight)
            weight[..., of] -= weight[..., of] @ left @ right
            return weight.movedim(-1, axis)

        def shifted(read: Read) -> Tensor:
            weight = old_weight(read).movedim(axis, -1)
            left, _, offset = constants(erasure, weight)
            return old_bias(read) + weight[..., of] @ left @ offset

        self[f"{matrix}.weight"] = erased
        if bias:
            self[f"{matrix}.bias"] = shifted

    def add(self, name: str, factors: Factors, *, transposed: bool) -> None:
        """Add the update B A to a matrix."""
        old = self[name]

        def updated(read: Read) -> Tensor:
            weight = old(read)
            a, b = (torch.tensor(part, dtype=weight.dtype).to(weight.device) for part in factors)
            return weight + ((b @ a).T if transposed else b @ a)

        self[name] = updated
