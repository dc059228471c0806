"""A closed form refined by gradient descent through the model above it.

The weighted sum of `TERMS`, read off the model's output, is minimised over L, R and m of
π(x) = x - L R (x - m) from a closed form on, by Adam (Kingma and Ba 2015,
https://arxiv.org/abs/1412.6980) in coordinates whitened by Σ = cov(x). The map of the least
held-out loss is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from annotated_types import Ge, Gt
from jaxtyping import Float
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import KIND
from countergen_edit.core.seeds import generator
from countergen_edit.erasers.affine import AffineErasure, Gate
from countergen_edit.erasers.base import BaseEraser, OnClosedForm
from countergen_edit.erasers.labelled import read_background
from countergen_edit.erasers.numerics import thin_svd

Change = Callable[[Float[Tensor, "*batch d"]], Float[Tensor, "*batch d"]]
"""The change of activations by a map, differentiable in its parameters."""
TERMS = ("bias", "people", "keep", "neutral")
"""Terms of the loss, in nats or nats²; 0 at the optimum:

- `bias`: squared difference of the groups' mean log-probabilities in contexts to erase;
- `people`: KL(target ‖ edited) there; the target is each person's unedited distribution less
  the group's contribution;
- `keep`: KL(unedited ‖ edited) in contexts to keep;
- `neutral`: the same at every token of neutral text.
"""


@runtime_checkable
class Objective(Protocol):
    """Losses of a model under a change of its activations at one site."""

    def losses(self, change: Change, seed: int, step: int) -> Mapping[str, Tensor]:
        """The `TERMS` on texts drawn by seed and step, with gradients."""

    def held_out(self, change: Change) -> Mapping[str, float] | None:
        """The `TERMS` on held-out texts; None without any. An unbiased square may be below 0."""


RIDGE = 0.1
"""Added to Σ, in units of the mean variance."""


@dataclass(frozen=True, eq=False)
class WhitenedMap:
    """A trainable map x ↦ x - g(x) S l (r S⁻¹ (x - m) - c) for S² = Σ; g is fixed."""

    left: Float[Tensor, "d k"]
    right: Float[Tensor, "k d"]
    offset: Float[Tensor, " k"]
    mean: Float[Tensor, " d"]
    whiten: tuple[Float[Tensor, "d d"], Float[Tensor, "d d"]]
    gate: Gate | None = None

    @classmethod
    def of(
        cls, erasure: AffineErasure, X: Float[np.ndarray, "row d"], extra: int, seed: int
    ) -> WhitenedMap:
        """The map of an erasure, with `extra` random directions that it only reads."""
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

        values = left, right, np.zeros(len(right))
        own_left, own_right, offset = (tensor(part).requires_grad_() for part in values)
        whiten = tensor(S), tensor(inverse)
        return cls(own_left, own_right, offset, tensor(erasure.mean), whiten, erasure.gate)

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
    def erasure(self) -> AffineErasure:
        """The map as an erasure, without directions that it does not write."""
        parts = (*self.parameters, self.mean, *self.whiten)
        own_left, own_right, offset, mean, S, inverse = (p.detach().double().numpy() for p in parts)
        left, right = S @ own_left, own_right @ inverse
        wanted = right @ mean + offset  # reading of the erasure's mean
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


WARM_UP = 10
"""Steps over which the learning rate rises."""
LAST = 0.1
"""Share of the learning rate at the last step."""


class Refined(OnClosedForm):
    """Refine a closed form by gradient descent; without an objective, the closed form itself.

    Parameters
    ----------
    start : str or mapping, optional
        The closed form: a name, or a mapping with its `kind` and parameters.
    extra : int
        Directions beyond those of the closed form.
    steps, learning_rate
        Of Adam, on whitened parameters; the rate warms up and decays as a cosine.
    bias, people, keep, neutral : float
        Weights of the terms.
    check_every, patience : int
        Steps between two evaluations of held-out losses, and evaluations without improvement after
        which it stops.
    random_state : int

    Attributes
    ----------
    start_ : AffineErasure
        The closed form.
    curve_ : list of dict
        `seed`, `step`, the terms and `loss` of each evaluation.
    """

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {"objective": True}
    # A soft closed form, as conflicting demands have no exact map.
    default: ClassVar[Mapping[str, Any]] = {KIND: "preserving", "rank": "cv", "keep_strength": 10.0}
    no_guarantee_because = "the model's outputs are made equal, not its activations"
    refit_in_folds = False

    def __init__(
        self,
        start: str | Mapping[str, Any] | None = None,
        *,
        extra: Annotated[int, Ge(0)] = 16,
        steps: Annotated[int, Gt(0)] = 150,
        learning_rate: Annotated[float, Gt(0)] = 5e-4,
        bias: Annotated[float, Ge(0)] = 10.0,
        people: Annotated[float, Ge(0)] = 5.0,
        keep: Annotated[float, Ge(0)] = 10.0,
        neutral: Annotated[float, Ge(0)] = 10.0,
        check_every: Annotated[int, Gt(0)] = 25,
        patience: Annotated[int, Gt(0)] = 6,
        random_state: int = 0,
    ) -> None:
        self.start = start
        self.extra = extra
        self.steps = steps
        self.learning_rate = learning_rate
        self.bias = bias
        self.people = people
        self.keep = keep
        self.neutral = neutral
        self.check_every = check_every
        self.patience = patience
        self.random_state = random_state

    @property
    def n_steps(self) -> int:
        return self.steps

    @property
    def draft(self) -> BaseEraser:
        """The closed form that it starts from, not yet fitted."""
        return self.closed_form

    def fit(
        self, X: Any, y: Any, *, objective: Objective | None = None, **metadata: Any
    ) -> Refined:
        """Fit the closed form, with its metadata, then refine it on `objective`.

        Raises a `UserError` as the closed form and `check` do, or if losses are not finite.
        """
        super().fit(X, y, **metadata)
        self.start_ = self.erasure_
        self.curve_: list[dict[str, float]] = []
        if objective is not None:
            every = read_background(self, self._read(X, y).X, metadata.get("background"))
            _, erasure = min(self._run(every, objective), key=lambda found: found[0])
            self._store(erasure, self.classes_)
        return self

    def _run(
        self, X: Float[np.ndarray, "row d"], objective: Objective
    ) -> Iterator[tuple[float, AffineErasure]]:
        """Evaluated maps with their losses, the closed form first if there are held-out losses."""
        seed = self.random_state
        thin = WhitenedMap.of(self.start_, X, self.extra, seed)
        adam = torch.optim.Adam(thin.parameters, betas=(0.9, 0.98))
        least, since = np.inf, 0
        drawn: list[dict[str, float]] = []
        for step in range(self.steps + 1):
            if step % self.check_every == 0 or step == self.steps:
                with torch.no_grad():
                    terms = objective.held_out(thin)
                if terms is None and drawn:
                    terms = {k: float(np.mean([d[k] for d in drawn])) for k in drawn[0]}
                if terms is not None:
                    loss = self._sum(terms)
                    self._record(seed, step, terms, loss)
                    yield loss, thin.erasure
                    least, since = (loss, 0) if loss < least else (least, since + 1)
                    drawn = []
                if since >= self.patience or step == self.steps:
                    return
            for group in adam.param_groups:
                group["lr"] = self.learning_rate * _pace(step, self.steps)
            losses = objective.losses(thin, seed, step)
            drawn.append({k: float(v.detach()) for k, v in losses.items()})
            adam.zero_grad()
            self._sum(losses).backward()
            adam.step()

    def _sum(self, terms: Mapping[str, Any]) -> Any:
        return sum(getattr(self, name) * value for name, value in terms.items())

    def _record(self, seed: int, step: int, terms: Mapping[str, float], loss: float) -> None:
        if not np.isfinite(loss):
            raise UserError(
                f"the loss is not finite after {step} steps: use a learning_rate below "
                f"{self.learning_rate:g}"
            )
        self.curve_.append({"seed": float(seed), "step": float(step), **terms, "loss": loss})


def _pace(step: int, steps: int) -> float:
    """Share of the learning rate at a step."""
    cosine = 0.5 * (1.0 + np.cos(np.pi * step / steps))
    return float(min(1.0, (step + 1) / WARM_UP) * (LAST + (1.0 - LAST) * cosine))
