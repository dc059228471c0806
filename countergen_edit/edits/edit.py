"""An edit: erasures placed at sites of a model, attached for a while or for good.

Comes in: affine maps from the erasers room. Goes out: a model that scores and generates like any
other. The edit of CounterGen, section 3.4, π(x) = x - Σ_k ⟨x - m, d_k⟩ d_k after layer L at every
position, is one `Placement` at `resid_post`; with a limit it leaves attention sinks alone. An edit
may put words before every text as well, or instead. Refused: an unknown site or layer, an erasure
of another width than the model's, two edits added together that act at one site and layer, a limit
that is no positive number, words in an edit that is attached for good or added to another with
words.
"""

from __future__ import annotations

import functools
import hashlib
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from countergen_edit.edits.shift import Shift
from countergen_edit.erasers import AffineErasure
from countergen_edit.errors import UserError
from countergen_edit.models import LanguageModel, hook_name, preface_ids


@dataclass(frozen=True)
class Placement:
    """One erasure or shift at one site; `layer` is None at `embed`, which has no layer.

    A token whose activation there has a Euclidean norm above `limit` is left as it is; None edits
    every position. Such tokens are attention sinks (Xiao et al. 2024, arXiv 2309.17453; Sun et al.
    2024, arXiv 2402.17762): all others attend to them, so that moving them harms every prediction.
    The limit is fixed when the erasure is fitted, so what is left alone depends on the token and
    what precedes it only. A norm next to the limit could fall on either side by rounding; but the
    limit stands in a gap, where sinks part from other tokens (25,000 against 130 to 420, say).
    """

    site: str
    layer: int | None
    erasure: AffineErasure | Shift
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.layer is not None:  # a number of NumPy's would be written and hashed as another
            object.__setattr__(self, "layer", operator.index(self.layer))
        if self.limit is not None:
            if not (self.limit > 0 and math.isfinite(self.limit)):
                raise UserError(f"limit={self.limit} is no positive number: write None for none")
            object.__setattr__(self, "limit", float(self.limit))


@dataclass(frozen=True)
class Edit:
    """Erasures that act together, in the order in which the forward pass meets them.

    Several at one site and layer act one after the other, each on what the one before it left.
    """

    placements: tuple[Placement, ...]
    preface: str = ""
    """Words that stand before every text, special tokens written out; empty for none."""
    request: str = ""
    """What of them a user says, before every question too where a model is asked questions."""

    @classmethod
    def at(cls, site: str, erasures: Mapping[int | None, AffineErasure]) -> Edit:
        """An edit at one site of one or several layers."""
        return cls(tuple(Placement(site, layer, e) for layer, e in erasures.items()))

    def __add__(self, other: Edit) -> Edit:
        """Both, each fitted without the other, so that no place can be edited by both."""
        for mine in self.placements:
            for its in other.placements:
                require_apart((mine.site, mine.layer), (its.site, its.layer))
        return self.then(other)

    def then(self, other: Edit) -> Edit:
        """This edit and one that was fitted on what it leaves, which may act at the same places.

        An affine map keeps equal means equal, so that where both act at one place what the first
        made equal there stays so.
        """
        if self.preface and other.preface:
            raise UserError("two edits that put words before a text are not one: choose one")
        return Edit(
            self.placements + other.placements,
            self.preface or other.preface,
            self.request or other.request,
        )

    @property
    def rank(self) -> int:
        """Dimensions removed, summed over placements."""
        return sum(p.erasure.rank for p in self.placements)

    @property
    def leaves_sinks(self) -> bool:
        """Whether some token may be left as it is."""
        return any(p.limit is not None for p in self.placements)

    @property
    def gated(self) -> tuple[Placement, ...]:
        """The placements that act on each token in the measure in which a gate is open."""
        return tuple(place for place in self.placements if place.erasure.gate is not None)

    def everywhere(self) -> Edit:
        """The same erasures at every position."""
        return replace(self, placements=tuple(replace(p, limit=None) for p in self.placements))

    @property
    def is_erasure(self) -> bool:
        """Whether it erases and does nothing else: what a checkpoint can hold."""
        erases = all(isinstance(place.erasure, AffineErasure) for place in self.placements)
        return erases and not self.preface

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of places, limits, tensors and words, by which equal edits are equal."""
        sha = hashlib.sha256()
        for place in self.placements:
            sha.update(repr((place.site, place.layer, place.limit)).encode())
            for part in tensors(place).values():
                sha.update(repr((part.shape, str(part.dtype))).encode())
                sha.update(np.ascontiguousarray(part).tobytes())
        if self.preface:
            sha.update(repr(("preface", self.preface, self.request)).encode())
        return sha.hexdigest()


UNCHANGED = Edit(())
"""The model as it came."""


def require_apart(first: tuple[str, int | None], second: tuple[str, int | None]) -> None:
    """Refuse two erasures at one site and layer, the second not fitted on what the first leaves.

    Raises:
        UserError: naming the place.
    """
    if first == second:
        site, layer = first
        raise UserError(
            f"the edit has two erasures at site {site!r}, layer {layer}: fit one of higher rank, "
            "or the second on what the first leaves"
        )


def tensors(place: Placement) -> dict[str, np.ndarray]:
    """All that a placement's map is made of, by the names that files have it under."""
    if isinstance(place.erasure, Shift):
        return {"vector": place.erasure.vector}
    parts = {part: getattr(place.erasure, part) for part in ("left", "right", "mean")}
    gate = place.erasure.gate
    if gate is not None:
        parts |= {"gate_weight": gate.weight, "gate_bias": np.array(gate.bias)}
    return parts


class AttachedEdit:
    """A persistent edit; `remove` restores the model bit for bit."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def remove(self) -> None:
        """Detach the edit; a second call does nothing."""
        self._stack.close()


def attach(model: LanguageModel, edit: Edit) -> AttachedEdit:
    """Attach an edit until its handle is removed.

    It acts in scoring, in cached generation and in the original Hugging Face model's `generate`.

    Raises:
        UserError: a site or layer is unknown, the widths of edit and model differ, or the edit puts
            words before a text, which no hook does.
    """
    if edit.preface:
        raise UserError("an edit that puts words before a text acts in `applied` alone")
    return _attached(model, edit)


def _attached(model: LanguageModel, edit: Edit) -> AttachedEdit:
    hooks = _hooks(model, edit)
    stack = ExitStack()
    stack.enter_context(model.bridge.hooks(fwd_hooks=hooks))
    return AttachedEdit(stack)


@contextmanager
def applied(model: LanguageModel, edit: Edit) -> Iterator[LanguageModel]:
    """Run a block with the edit attached; it is removed however the block ends.

    What is yielded is the model to be used: words before a text act in it alone.
    """
    attached = _attached(model, edit)
    try:
        if edit.preface:
            yield model.prefaced(preface_ids(model, edit.preface), edit.request)
        else:
            yield model
    finally:
        attached.remove()


def _hooks(model: LanguageModel, edit: Edit) -> Sequence[tuple[str, Callable[..., Tensor]]]:
    hooks = []
    for place in edit.placements:
        if place.erasure.d != model.d_model:
            raise UserError(
                f"the edit was made for width {place.erasure.d}, "
                f"but model {model.name!r} has width {model.d_model}"
            )
        hooks.append((hook_name(model, place.site, place.layer), _hook(place)))
    return hooks


def _hook(place: Placement) -> Callable[..., Tensor]:
    """x ↦ x - left (right x - right mean), with its constants kept on the activation's device."""
    erasure, limit = place.erasure, place.limit
    gate = erasure.gate
    constants: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor, Tensor]] = {}

    def erase(x: Float[Tensor, "*batch d"], hook: Any = None) -> Float[Tensor, "*batch d"]:
        # Half precision is widened: a rank-one change of a few percent would drown in its rounding.
        wide = torch.promote_types(x.dtype, torch.float32)
        key = (x.device, wide)
        if key not in constants:
            # Row by row, as files have them: a matrix laid out otherwise is rounded otherwise.
            left, right, offset = (
                torch.tensor(np.ascontiguousarray(a), device=x.device, dtype=wide)
                for a in (erasure.left, erasure.right, erasure.offset)
            )
            constants[key] = left, right, offset
        left, right, offset = constants[key]
        y = x.to(wide)
        change = (y @ right.T - offset) @ left.T
        edited = (y - (change if gate is None else gate(y)[..., None] * change)).to(x.dtype)
        if limit is None:
            return edited
        # Written and computed as in a carried checkpoint, so that both leave the same tokens.
        size = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        return torch.where(size > torch.tensor(limit, dtype=wide, device=x.device), x, edited)

    return erase
