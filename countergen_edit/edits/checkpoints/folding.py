"""Edits folded into weights, where that is exact.

With y = W x + b the output of the last matrix of an attention layer or an MLP, the erasure
y - L R (y - m) is itself an affine map of x:

    W' = (I - L R) W        b' = (I - L R) b + L R m

An erasure of an embedding acts on each of its rows. The residual stream, limits and gates do not
fold. Other packages can use the folded model without custom code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, Placement, Shift
from countergen_edit.edits.checkpoints.parity import compared_ids, edited_logits
from countergen_edit.edits.checkpoints.stock import (
    empty_stock_model,
    projection_name,
    stock_classes,
    stock_model,
)
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel, hook_name

INSTEAD = "save it with form=carried"
_SCALE_TOLERANCE = 1e-5
"""An embedding that multiplies its rows by a constant does so in its own precision."""


def fold(model: LanguageModel, edit: Edit) -> Any:
    """Return a stock model with the edit in its weights; `model` itself is not changed.

    Raises
    ------
    UserError
        If the edit does not fold exactly, or the architecture is not from transformers.
    """
    stock_classes(model)
    places = [(placement, _find(model, placement)) for placement in edit.placements]
    changes: dict[str, Any] = {}
    for placement, name in places:
        changes |= _changes(model, placement, name)
    plain = stock_model(model, **changes)
    for placement, name in places:
        _require_unshared(plain, name)
        module = plain.get_submodule(name)
        if isinstance(module, nn.Embedding):
            _fold_embedding(module, placement.erasure, model)
        else:
            _fold_matrix(module, placement.erasure)
    return plain


def can_fold(model: LanguageModel, edit: Edit) -> bool:
    """Whether `fold` would succeed."""
    try:
        for placement in edit.placements:
            _changes(model, placement, _find(model, placement))
    except UserError:
        return False
    return True


def _kinds() -> tuple[type[nn.Module], ...]:
    from transformers.pytorch_utils import Conv1D

    return nn.Linear, Conv1D


def _find(model: LanguageModel, placement: Placement) -> str:
    if placement.site == "resid_post":
        raise UserError(
            "an edit at site resid_post does not fold into weights: what it removes also comes "
            f"along the skip path, which no weight sees; {INSTEAD}"
        )
    if placement.limit is not None:
        raise UserError(
            f"an edit at site {placement.site} that leaves attention sinks alone does not fold "
            f"into weights, which treat every token alike; {INSTEAD}"
        )
    if Edit((placement,)).gated:
        raise UserError(
            f"an edit at site {placement.site} with a gate does not fold into weights, which treat "
            f"every token alike; {INSTEAD}"
        )
    kinds = (nn.Embedding,) if placement.site == "embed" else _kinds()
    return projection_name(model, placement.site, placement.layer, kinds)


def _changes(model: LanguageModel, placement: Placement, name: str) -> dict[str, Any]:
    """Changes of the config: an output matrix of its own, a bias."""
    config = model.bridge.original_model.config
    if placement.site == "embed":
        # The output matrix keeps the rows that the embedding loses.
        return {"tie_word_embeddings": False} if config.tie_word_embeddings else {}
    key = f"{name}.bias"
    has = set(empty_stock_model(model).state_dict())
    if key in has or not np.any(_offset(placement.erasure)):
        return {}
    for switch, value in config.to_dict().items():
        if value is False and "bias" in switch:
            more = set(empty_stock_model(model, **{switch: True}).state_dict()) - has
            if key in more and all(added.endswith(".bias") for added in more):
                return {switch: True}
    raise UserError(
        f"an edit at site {placement.site} moves the mean, and {name} of {model.name} has no bias "
        f"to hold it, nor does its config have a switch for one; {INSTEAD}"
    )


def _require_unshared(plain: Any, name: str) -> None:
    """Refuse to change a weight that is also used elsewhere."""
    weight = plain.get_submodule(name).weight
    users = [
        key
        for key, parameter in plain.named_parameters(remove_duplicate=False)
        if parameter is weight
    ]
    if len(users) > 1:
        raise UserError(
            f"the weight of {name} is also {', '.join(users[1:])}, which the edit must not "
            f"change; {INSTEAD}"
        )


def _offset(erasure: AffineErasure | Shift) -> Float[np.ndarray, " d"]:
    offset: Float[np.ndarray, " d"] = erasure.left @ erasure.offset
    return offset


def _tensors(erasure: AffineErasure | Shift, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    left, right, offset = (
        torch.tensor(a, dtype=torch.float64, device=like.device)
        for a in (erasure.left, erasure.right, _offset(erasure))
    )
    return left, right, offset


def _fold_matrix(module: Any, erasure: AffineErasure | Shift) -> None:
    left, right, offset = _tensors(erasure, module.weight)
    # Conv1D keeps its matrix transposed, output last.
    transposed = not isinstance(module, nn.Linear)
    weight = module.weight.double()
    weight = weight.T if transposed else weight
    weight = weight - left @ (right @ weight)
    bias = torch.zeros_like(offset) if module.bias is None else module.bias.double()
    bias = bias - left @ (right @ bias) + offset
    weight = weight.T if transposed else weight
    dtype = module.weight.dtype
    module.weight = nn.Parameter(weight.contiguous().to(dtype), requires_grad=False)
    if module.bias is not None:
        module.bias = nn.Parameter(bias.to(dtype), requires_grad=False)


def _fold_embedding(
    module: nn.Embedding, erasure: AffineErasure | Shift, model: LanguageModel
) -> None:
    # Watched, not assumed: some families multiply the rows by a constant on their way out.
    original = model.bridge.original_model.get_input_embeddings()
    with torch.inference_mode():
        every = torch.arange(module.num_embeddings, device=module.weight.device)
        output = getattr(original, "original_component", original)(every).double()
    before = original.weight.double()  # of `module` an edit may have been folded already
    scale = (output * before).sum() / (before * before).sum()
    if (output - scale * before).abs().max() > _SCALE_TOLERANCE * output.abs().max():
        raise UserError(
            f"the embedding of {model.name} is more than a table of rows; an edit of it does not "
            f"fold exactly: {INSTEAD}"
        )
    left, right, offset = _tensors(erasure, module.weight)
    rows = scale * module.weight.double()
    rows = (rows - rows @ right.T @ left.T + offset) / scale
    module.weight = nn.Parameter(rows.to(module.weight.dtype), requires_grad=False)


def require_every_position(model: LanguageModel, edit: Edit, texts: Sequence[str]) -> None:
    """Refuse to fold an edit that only its limit keeps from folding; state the cost on `texts`."""
    if not edit.skips_sinks or not can_fold(model, edit.without_limits()):
        return  # what does not fold anyway is refused with that reason
    rows = compared_ids(model, texts)
    spared, divergences = 0, []
    for row in rows:
        is_spared = torch.zeros(len(row), dtype=torch.bool)
        hooks = [
            (hook_name(model, place.site, place.layer), _mark_spared(is_spared, place.limit))
            for place in edit.placements
        ]
        with model.bridge.hooks(fwd_hooks=hooks):
            edited_logits(model, None, row)
        spared += int(is_spared.sum())
        own, folded = (
            edited_logits(model, e, row).log_softmax(-1) for e in (edit, edit.without_limits())
        )
        divergences.append((own.exp() * (own - folded)).sum(-1))
    raise UserError(
        "a fold cannot leave attention sinks alone: of "
        f"{sum(map(len, rows))} tokens it would edit {spared} that this edit leaves as they "
        f"are, at a KL of {float(torch.cat(divergences).mean()):.3g} nats a token from the edit "
        "that was measured; save it with form=carried, or fit and measure one with edit.sinks=edit"
    )


def _mark_spared(is_spared: Tensor, limit: float | None) -> Callable[..., None]:
    def hook_fn(x: Tensor, hook: Any) -> None:
        if limit is not None:
            size = torch.linalg.vector_norm(x[0].float(), dim=-1)
            is_spared.logical_or_((size > limit).cpu())

    return hook_fn
