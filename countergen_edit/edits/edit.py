"""An edit: erasures, shifts and updates of weights of a model, attached for a while or for good.

CounterGen, section 3.4, π(x) = x - Σ_k ⟨x - m, d_k⟩ d_k after layer L at every position, is one
`Placement` at `resid_post`. An edit may also put words before every text.

An update is attached as LoRA layers are, y = W x + B (A x) for each matrix W (Hu et al. 2021, arXiv
2106.09685, equation 3), and leaves the weights as they are; merged, W + B A is an ordinary matrix.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import AffineErasure
from countergen_edit.erasers.affine import erase_tensor, freeze
from countergen_edit.models import LanguageModel, hook_name, preface_ids
from countergen_edit.models.capture import (
    EVERYWHERE,
    STREAM,
    added_to_stream,
    features,
    head_of,
    width,
)
from countergen_edit.models.language_model import Vectors, stock_name

Factors = tuple[Float[np.ndarray, "rank d_in"], Float[np.ndarray, "d_out rank"]]
"""A and B of a matrix, with the scale in B."""
_NEAR = 1e-6
"""Largest difference of R L from I in a projection, by the rounding of its fit."""


@dataclass(frozen=True, eq=False)
class Shift:
    """Activation addition, the map `x + vector`; `UserError` unless finite and one-dimensional.

    Turner et al. (2023, arXiv 2308.10248); Rimsky et al. (2024, arXiv 2312.06681).
    """

    vector: Float[np.ndarray, " d"]
    gate = None
    rank = 0

    def __post_init__(self) -> None:
        freeze(self, "a shift", vector=1)

    @property
    def d(self) -> int:
        return len(self.vector)


@dataclass(frozen=True)
class Placement:
    """One erasure or shift at one site; `layer` is None at `embed`.

    At `everywhere`, a projection that was fitted after block `layer` acts at every point of the
    residual stream and, as weights treat all tokens alike, at every token: without a gate or limit.

    Tokens with a norm above `limit` are not edited: attention sinks (Xiao et al. 2024, arXiv
    2309.17453; Sun et al. 2024, arXiv 2402.17762), whose change would degrade every prediction.
    """

    site: str
    layer: int | None
    erasure: AffineErasure | Shift
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.layer is not None:  # NumPy's would have another digest
            object.__setattr__(self, "layer", operator.index(self.layer))
        if self.limit is not None:
            if not (self.limit > 0 and math.isfinite(self.limit)):
                raise UserError(f"limit must be a positive number or None, not {self.limit}")
            object.__setattr__(self, "limit", float(self.limit))
        if self.site == EVERYWHERE and isinstance(self.erasure, AffineErasure):
            self._require_projection(self.erasure)

    def _require_projection(self, erasure: AffineErasure) -> None:
        """Refuse a map that is not a projection, or depends on the token."""
        off = np.abs(erasure.right @ erasure.left - np.eye(erasure.rank)).max(initial=0)
        reason = ""
        if erasure.gate is not None:
            reason = "this one has a gate"
        elif self.limit is not None:
            reason = "this one skips attention sinks"
        elif off > _NEAR:
            reason = f"R L of this one differs from I by {off:.2g}"
        if reason:
            raise UserError(
                f"an edit everywhere is a projection of every token: {reason}; choose another "
                "eraser, or edit.layers=best"
            )


@dataclass(frozen=True, eq=False)
class LowRankUpdate:
    """A and B of each updated matrix, by its module's stock name."""

    factors: Mapping[str, Factors]

    @property
    def rank(self) -> int:
        """The largest rank of a matrix's update."""
        return max(len(a) for a, _ in self.factors.values())

    def scaled(self, factor: float) -> LowRankUpdate:
        return LowRankUpdate({name: (a, factor * b) for name, (a, b) in self.factors.items()})


@dataclass(frozen=True)
class Edit:
    """Placements that act one after the other, in the order of the forward pass.

    `update` changes weight matrices. `preface` stands before every text, with special tokens;
    `request` is the user's part of it, which stands before every question in a chat.
    """

    placements: tuple[Placement, ...]
    preface: str = ""
    request: str = ""
    update: LowRankUpdate | None = None

    @classmethod
    def at(cls, site: str, erasures: Mapping[int | None, AffineErasure]) -> Edit:
        """An edit at one site of one or several layers."""
        return cls(tuple(Placement(site, layer, e) for layer, e in erasures.items()))

    def then(self, other: Edit) -> Edit:
        """Both edits; `UserError` for two at one site and layer, prefaces or updates."""
        places = {(place.site, place.layer) for place in self.placements}
        for place in other.placements:
            if (place.site, place.layer) in places:
                raise UserError(
                    f"the edit has two erasures at site {place.site!r}, layer {place.layer}: fit "
                    "one of higher rank"
                )
        if self.preface and other.preface:
            raise UserError("two edits that put words before a text are not one: choose one")
        if self.update and other.update:
            raise UserError("two updates of weights are not one: choose one")
        return Edit(
            self.placements + other.placements,
            self.preface or other.preface,
            self.request or other.request,
            self.update or other.update,
        )

    __add__ = then

    @property
    def rank(self) -> int:
        """Dimensions removed, summed over placements."""
        return sum(p.erasure.rank for p in self.placements)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of places, limits, tensors, updates and words."""
        sha = hashlib.sha256()

        def add(array: np.ndarray, *name: str) -> None:
            sha.update(repr((*name, array.shape, str(array.dtype))).encode())
            sha.update(np.ascontiguousarray(array).tobytes())

        for place in self.placements:
            sha.update(repr((place.site, place.layer, place.limit)).encode())
            for part in tensors(place).values():
                add(part)
        for name, factors in sorted(self.update.factors.items()) if self.update else ():
            for part in factors:
                add(part, name)
        if self.preface:
            sha.update(repr(("preface", self.preface, self.request)).encode())
        return sha.hexdigest()


UNCHANGED = Edit(())
"""The unedited model."""


def tensors(place: Placement) -> dict[str, np.ndarray]:
    """The arrays of a placement's map, by their names in files."""
    if isinstance(place.erasure, Shift):
        return {"vector": place.erasure.vector}
    parts = {part: getattr(place.erasure, part) for part in ("left", "right", "mean")}
    gate = place.erasure.gate
    if gate is not None:
        parts |= {"gate_weight": gate.weight, "gate_bias": np.array(gate.bias)}
    return parts


@contextmanager
def applied(model: LanguageModel, edit: Edit) -> Iterator[LanguageModel]:
    """Run a block with the edit attached, and yield the edited model.

    Hooks also act in cached generation and in the original Hugging Face model. `UserError` for an
    unknown site or layer, another width, or a matrix that the model lacks.
    """
    with ExitStack() as stack:
        stack.enter_context(model.bridge.hooks(fwd_hooks=_hooks(model, edit)))
        if edit.update is not None:
            _attach(edit.update, model.bridge, stack)
        if edit.preface:
            yield model.with_preface(preface_ids(model, edit.preface), edit.request)
        else:
            yield model


def _hooks(model: LanguageModel, edit: Edit) -> Sequence[tuple[str, Callable[..., Tensor]]]:
    hooks: list[tuple[str, Callable[..., Tensor]]] = []
    for place in edit.placements:
        name = hook_name(model, place.site, place.layer)
        d = width(model, place.site)
        if place.erasure.d != d:
            raise UserError(
                f"the edit has width {place.erasure.d}, but model {model.name!r} has width {d}"
            )
        hook = placement_hook(place)
        if head_of(place.site) is not None:
            hook = partial(_at_features, hook, features(model, place.site))
        hooks.append((STREAM if place.site == EVERYWHERE else name, hook))
        if place.site == EVERYWHERE and isinstance(place.erasure, AffineErasure):
            # With P = I - L R, π(x) = P x + L R m and R L = I, π(π(x) + y) = π(x) + P y: at every
            # point, π is π at the first and P on all that is added (of a shift, the identity).
            linear = placement_hook(replace(place, erasure=place.erasure.linear))
            hooks += [(hook_name(model, *added), linear) for added in added_to_stream(model)]
    return hooks


def _at_features(change: Callable[[Tensor], Tensor], of: slice, x: Vectors, hook: Any) -> Vectors:
    """The map of one head, on a tensor of all heads."""
    flat = x.flatten(2).clone()
    flat[..., of] = change(flat[..., of])
    return flat.view_as(x)


def placement_hook(place: Placement) -> Callable[..., Tensor]:
    """The map of a placement, as a forward hook."""
    erasure = place.erasure
    if isinstance(erasure, Shift):
        parts_on = _on_device(erasure.vector)
    else:  # row by row, as in files: another memory layout is rounded differently
        arrays = (erasure.left, erasure.right, erasure.offset)
        parts_on = _on_device(*map(np.ascontiguousarray, arrays))

    def erase(x: Vectors, hook: Any = None) -> Vectors:
        # Widened: a change of a few percent would drown in the rounding of half precision.
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        parts = parts_on(y.device, y.dtype)
        edited = parts[0] + y if len(parts) == 1 else erase_tensor(y, parts, erasure.gate)
        edited = edited.to(x.dtype)
        if place.limit is None:
            return edited
        # Computed as in a carried checkpoint, so that both skip the same tokens.
        size = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        limit = torch.tensor(place.limit, dtype=y.dtype, device=y.device)
        return torch.where(size > limit, x, edited)

    return erase


def _on_device(*arrays: np.ndarray) -> Callable[[torch.device, torch.dtype], Any]:
    """Tensors of arrays, made once for each device and type."""

    @cache
    def tensors_on(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, ...]:
        with torch.inference_mode(False):  # gradients may pass later
            return tuple(torch.tensor(a, device=device, dtype=dtype) for a in arrays)

    return tensors_on


def _attach(update: LowRankUpdate, bridge: Any, stack: ExitStack) -> None:
    """Add B (A x) to the outputs of matrices until the stack is left."""
    modules = {
        stock_name(name): module
        for name, module in bridge.original_model.named_modules(remove_duplicate=False)
        if hasattr(module, "weight")
    }
    parts = split_matrices(bridge)
    updated = set[int]()
    for name, (a, b) in update.factors.items():
        module = modules.get(name)
        if module is None or sorted(module.weight.shape) != sorted((len(b), a.shape[1])):
            raise UserError(
                f"the edit updates {name} [{len(b)}, {a.shape[1]}], which the model does not have"
            )
        for part, rows in parts.get(id(module), [(module, slice(None))]):
            stack.callback(part.register_forward_hook(_adding(a, b[rows])).remove)
            updated.add(id(part))
    # Models that skip blocks look for hooks of the bridge: here on the first changed.
    blocks = [{*map(id, block.modules())} for block in bridge.blocks]
    lowest = next(i for i, members in enumerate(blocks) if members & updated)
    hooks = [(f"blocks.{lowest}.hook_in", lambda x, hook: x)]
    stack.enter_context(bridge.hooks(fwd_hooks=hooks))


def _adding(a: np.ndarray, b: np.ndarray) -> Callable[..., Tensor]:
    factors = _on_device(a, b)

    def add(module: Any, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        x = inputs[0]
        wide = torch.promote_types(x.dtype, torch.float32)
        down, up = factors(x.device, wide)
        changed: Tensor = output + ((x.to(wide) @ down.T) @ up.T)
        return changed.to(output.dtype)

    return add


def split_matrices(bridge: Any) -> dict[int, list[tuple[Any, Any]]]:
    """Joint matrices of queries, keys and values, which the bridge splits instead of running them.

    The id of each module → the modules that run in its place, each with its output rows.
    """
    parts = {}
    for component in bridge.modules():
        if not hasattr(component, "split_qkv_matrix"):
            continue
        joint = component.qkv.original_component
        weight = joint.weight
        # Split like the weights, a matrix of its rows' numbers tells the rows of each part.
        outputs = 0 if isinstance(joint, nn.Linear) else 1  # Conv1D keeps it transposed
        numbers = torch.arange(weight.shape[outputs], dtype=torch.float32)
        shown = numbers[:, None] if outputs == 0 else numbers
        joint.weight = nn.Parameter(shown.expand(weight.shape).contiguous(), requires_grad=False)
        try:
            with torch.random.fork_rng(devices=[]):  # the parts are initialised before they are set
                split = component.split_qkv_matrix(component.original_component)
        finally:
            joint.weight = weight
        running = (getattr(component, part).original_component for part in "qkv")
        rows = (part.weight[:, 0].detach().long().cpu().numpy() for part in split)
        parts[id(joint)] = list(zip(running, rows, strict=True))
    return parts
