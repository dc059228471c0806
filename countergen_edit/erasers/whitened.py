"""A thin affine map with parameters to be trained, whitened by the covariance of what it meets.

    x ↦ x - S l (r S⁻¹ (x - m) - c)    for S² = Σ

Comes in: an erasure and rows. Goes out: a differentiable map that starts as that erasure, and an
erasure again. In these coordinates a change of a parameter is as large in every direction in which
the rows vary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.gate import Gate
from countergen_edit.erasers.svd import thin_svd
from countergen_edit.seeds import generator

RIDGE = 0.1
"""Of the mean variance, added to Σ: directions that hardly vary are not whitened to large ones."""


@dataclass(frozen=True, eq=False)
class WhitenedMap:
    """A thin affine map in whitened coordinates: left = S l, right = r S⁻¹, for S² = Σ."""

    left: Float[Tensor, "d k"]
    right: Float[Tensor, "k d"]
    offset: Float[Tensor, " k"]
    """What `right (x - mean)` is less than, beyond the mean."""
    start: tuple[Float[Tensor, "d k"], Float[Tensor, "k d"]]
    mean: Float[Tensor, " d"]
    whiten: tuple[Float[Tensor, "d d"], Float[Tensor, "d d"]]
    gate: Gate | None = None
    """How far it acts on a row, which is not trained."""

    @classmethod
    def of(
        cls, erasure: AffineErasure, X: Float[np.ndarray, "row d"], extra: int, seed: int
    ) -> WhitenedMap:
        """The map of an erasure, with further directions that it reads and does not write."""
        if erasure.gate is not None:
            acted_on = X[erasure.gate(X) > 0]
            X = acted_on if len(acted_on) > 1 else X
        variances, axes = np.linalg.eigh(np.cov(X.T))
        scale = np.sqrt(np.clip(variances, 0.0, None) + RIDGE * max(variances.mean(), 1e-300))
        S, inverse = (axes * scale) @ axes.T, (axes / scale) @ axes.T
        left, right = _balanced(inverse @ erasure.left, erasure.right @ S)
        drawn = generator(seed, "refined", "extra").normal(size=(extra, erasure.d))
        left = np.hstack([left, np.zeros((erasure.d, extra))])
        right = np.vstack([right, drawn / np.sqrt(erasure.d)])

        def tensor(values: np.ndarray) -> Tensor:
            return torch.tensor(values, dtype=torch.float32)

        offset = np.zeros(len(right))
        parts = [tensor(values).requires_grad_() for values in (left, right, offset)]
        start, whiten = (tensor(left), tensor(right)), (tensor(S), tensor(inverse))
        mean, gate = tensor(erasure.mean), erasure.gate
        return cls(parts[0], parts[1], parts[2], start, mean, whiten, gate)

    @property
    def parameters(self) -> list[Tensor]:
        return [self.left, self.right, self.offset]

    def __call__(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        S, inverse = self.whiten
        # Only the thin products go to the activations' device.
        left, right, offset, mean = (
            part.to(x.device)
            for part in (S @ self.left, self.right @ inverse, self.offset, self.mean)
        )
        change = ((x - mean) @ right.T - offset) @ left.T
        return x - (change if self.gate is None else self.gate(x)[..., None] * change)

    @property
    def distance(self) -> Float[Tensor, ""]:
        """E‖change - first change‖² for whitened x about m: ‖l r - l₀ r₀‖² + ‖l c‖².

        From k x k products of differences, which are exact where it is small.
        """
        left = torch.hstack([self.left - self.start[0], self.start[0]])
        right = torch.vstack([self.right, self.right - self.start[1]])
        moved = ((left.T @ left) * (right @ right.T)).sum()
        return moved + ((self.left @ self.offset) ** 2).sum()

    @property
    def erasure(self) -> AffineErasure:
        """The map as files have it, with the directions that it writes alone."""
        parts = (*self.parameters, self.mean, *self.whiten)
        own_left, own_right, offset, mean, S, inverse = (p.detach().double().numpy() for p in parts)
        left, right = S @ own_left, own_right @ inverse
        wanted = right @ mean + offset  # what the erasure's mean is read as
        keep_left, keep_right = _balanced(left, right)
        turned = np.linalg.lstsq(keep_left, left @ wanted, rcond=None)[0]
        moved = np.linalg.lstsq(keep_right, turned - keep_right @ mean, rcond=None)[0]
        return AffineErasure(keep_left, keep_right, mean + moved, self.gate)


def _balanced(
    left: Float[np.ndarray, "d k"], right: Float[np.ndarray, "k d"]
) -> tuple[Float[np.ndarray, "d r"], Float[np.ndarray, "r d"]]:
    """Factors of the same product, of equal size, without directions that it does not write."""
    q, upper = np.linalg.qr(left)
    p, lower = np.linalg.qr(right.T)
    a, size, b = thin_svd(upper @ lower.T)
    signal = size > 1e-9 * size.max(initial=0.0)
    signal[:1] = True  # a map that does nothing has a direction too
    root = np.sqrt(size[signal])
    return q @ a[:, signal] * root, root[:, None] * (b[signal] @ p.T)
