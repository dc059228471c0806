"""How far an erasure acts on a row: a linear probe, cut off at nothing and at all.

    g(x) = min(1, max(0, w · x + b))        π(x) = x - g(x) L R (x - m)

Comes in: rows at which an erasure is to act, and rows at which it is not. Goes out: a gate. At a
row where the probe sees nothing to erase, g(x) is 0 and not merely small, so that the row stays as
it is to the last bit. Refused: weights that are not finite.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from countergen_edit.errors import UserError

HALF = 0.5
"""The gate is half open where the probe is undecided."""


@dataclass(frozen=True, eq=False)
class Gate:
    """min(1, max(0, weight · x + bias)) over the last axis, float64 and read-only.

    Args:
        weight: `[d]`.
        bias: a number.

    Raises:
        UserError: a weight of another shape, or a value that is not finite.

    >>> Gate(np.array([1.0, 0.0]), 0.5)(np.array([[0.25, 9.0], [2.0, 9.0], [-2.0, 9.0]]))
    array([0.75, 1.  , 0.  ])
    """

    weight: Float[np.ndarray, " d"]
    bias: float
    _on_device: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

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
        """How far it is open at each row of a NumPy array or torch tensor `[..., d]`, from 0 to 1.

        In the dtype of `x`, which is float32 at least.
        """
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(x, torch.Tensor):
            key = (x.device, x.dtype)
            if key not in self._on_device:
                weight = torch.tensor(self.weight, dtype=x.dtype, device=x.device)
                self._on_device[key] = weight, torch.tensor(self.bias, dtype=x.dtype).to(x.device)
            weight, bias = self._on_device[key]
            return (x @ weight + bias).clamp(0.0, 1.0)
        dtype = x.dtype
        return np.clip(x @ self.weight.astype(dtype) + dtype.type(self.bias), 0.0, 1.0)

    def __getstate__(self) -> dict[str, Any]:
        return {"weight": self.weight, "bias": self.bias}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "_on_device": {}}.items():
            object.__setattr__(self, name, value)
        self.__post_init__()


SHARES = {"open": 0.5, "keep": 0.4, "background": 0.1}
"""What rows of a kind count for together. Those to be kept are few, and what a probe mistakes for
those to be erased; text about nobody is told from both with ease."""


def fit_gate(
    opened: Float[np.ndarray, "row d"],
    keep: Float[np.ndarray, "kept d"],
    background: Float[np.ndarray, "other d"],
    penalty: float,
) -> Gate:
    """The gate of a logistic probe: its log odds and a half, cut off.

    Where the odds are even it is half open; from odds of e^(1/2) on, wholly. `SHARES` says what the
    rows of each kind count for, however many there are; a kind without rows counts for nothing.

    Args:
        opened: rows at which the erasure is to act.
        keep: rows that are to stay as they are, though people are spoken of.
        background: text about nobody.
        penalty: of squared weights of features of unit variance, against the mean loss of a row.
    """
    kinds = (opened, keep, background)
    rows = np.vstack(kinds)
    sizes = [len(kind) for kind in kinds]
    each = [share / max(size, 1) for share, size in zip(SHARES.values(), sizes, strict=True)]
    weights = np.repeat(each, sizes)
    is_open = np.repeat([1, 0, 0], sizes)
    weights[is_open == 0] *= weights[is_open == 1].sum() / weights[is_open == 0].sum()
    probe = make_pipeline(
        StandardScaler(), LogisticRegression(C=1 / (penalty * len(rows)), max_iter=500)
    )
    probe.fit(rows, is_open, logisticregression__sample_weight=weights / weights.mean())
    scaler, linear = probe[0], probe[1]
    weight = linear.coef_[0] / scaler.scale_
    return Gate(weight, float(linear.intercept_[0] - weight @ scaler.mean_) + HALF)
