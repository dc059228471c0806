"""Folding a projection at every point of the residual stream, for any family.

With P = I - L R, R L = I and c = L R m, the map π(x) = P x + c at every point is, in weights,

    E' = E Pᵀ + c in each row        W' = P W        b' = P b

for the token embedding E and all other writers: tables of positions, and the last matrices of
attention, MLPs and experts. They are found by gradients in one forward pass: feature i of a writer
changes feature i of what is added to the stream, and no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from countergen_edit.core.errors import UserError
from countergen_edit.edits.checkpoints.stock import PROBE_TOKENS, module_names, stock_model
from countergen_edit.edits.checkpoints.weights import EditedWeights
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel
from countergen_edit.models.capture import added_to_stream

UNTIED = {"tie_word_embeddings": False}
"""Of the config: the output matrix must stay while the embedding changes."""
_NEAR = 0.03
"""Relative difference of sums that rounding explains, in half precision too."""
_START = ""


@dataclass(frozen=True)
class Writers:
    """The parameters that write a stock model's residual stream."""

    embedding: str
    scale: float
    """By which the model multiplies the token embedding."""
    others: dict[str, int]
    """Each with the axis of its features."""


class _DoesNotFoldError(Exception):
    """With the reason."""


def stream_writers(model: LanguageModel, plain: Any = None) -> Writers:
    """Find the writers of `plain`, the stock model of `model` with untied embeddings.

    Raises a `UserError` if the stream is anything but a sum of what they write, as behind a norm.
    """
    try:
        return _writers(model, plain or stock_model(model, **UNTIED))
    except _DoesNotFoldError as reason:
        raise UserError(
            f"an edit everywhere does not fold into the weights of {model.name}: {reason}; save "
            "one of a layer with form=carried"
        ) from None


def _writers(model: LanguageModel, plain: Any) -> Writers:
    blocks = module_names(model, [("resid_post", layer) for layer in range(model.n_layers)])
    try:
        added = module_names(model, added_to_stream(model))
    except UserError:
        raise _DoesNotFoldError(
            "its blocks add what is not a module's output to the residual stream, as a scaled one"
        ) from None
    embed = plain.get_input_embeddings()
    # The padding token has no gradient.
    tokens = [i for i in range(model.vocab_size) if i != embed.padding_idx][:PROBE_TOKENS]
    ids = torch.tensor(tokens, device=model.device)
    with torch.enable_grad(), ExitStack() as stack:
        stack.callback(plain.requires_grad_, False)
        seen = _outputs(plain.requires_grad_(True), [*blocks, *added], blocks[0], ids)
        inside = f"{blocks[0].rpartition('.')[0]}."
        outside = {key: p for key, p in plain.named_parameters() if not key.startswith(inside)}
        others, gradients = _written(seen[_START], outside, "the input of its first block")
        [embedding] = [key for key, parameter in outside.items() if parameter is embed.weight]
        if others.pop(embedding, None) is None:
            raise _DoesNotFoldError("a matrix stands between its token embedding and its blocks")
        for name in added:
            module = plain.get_submodule(name)
            what = f"the output of {name}, a {type(module).__name__},"
            own = dict(module.named_parameters(prefix=name))
            found, reached = _written(seen[name], own, what)
            if idle := [key for key, p in own.items() if p.ndim > 1 and key not in reached]:
                raise _DoesNotFoldError(f"{idle[0]} was not reached by {PROBE_TOKENS} tokens")
            others |= found
    points = [seen[_START], *(seen[name] for name in blocks)]
    of_block = zip(added[::2], added[1::2], strict=True)
    for (before, after), (attention, mlp) in zip(pairwise(points), of_block, strict=True):
        total = before + seen[attention].view_as(before) + seen[mlp].view_as(before)
        if (after - total).abs().max() > _NEAR * after.abs().max():
            raise _DoesNotFoldError(
                "its blocks do more than add the outputs of attention and MLP to the residual "
                "stream, such as norm the sum"
            )
    return Writers(embedding, float(gradients[embedding][ids].max()), others)


def _outputs(
    plain: Any, names: Sequence[str], block: str, ids: Tensor
) -> dict[str, Float[Tensor, "*token d"]]:
    """The output of each module, or its first part, and at `_START` the input of a block."""
    seen: dict[str, Tensor] = {}

    def keep(name: str, module: Any, inputs: Any, output: Any) -> None:
        # A copy, as Falcon adds to the output of an MLP in place.
        seen[name] = (output if isinstance(output, Tensor) else output[0]).clone()

    def keep_input(module: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        seen[_START] = args[0] if args else kwargs["hidden_states"]

    with ExitStack() as stack:
        first = plain.get_submodule(block)
        handle = first.register_forward_pre_hook(keep_input, with_kwargs=True)
        stack.callback(handle.remove)
        for name in names:
            handle = plain.get_submodule(name).register_forward_hook(partial(keep, name))
            stack.callback(handle.remove)
        plain.base_model(input_ids=ids[None], use_cache=False)
    return seen


def _written(
    output: Float[Tensor, "*token d"], parameters: Mapping[str, nn.Parameter], what: str
) -> tuple[dict[str, int], dict[str, Tensor]]:
    """The writers of an output among parameters, each with the axis of its features; gradients.

    The gradient of half of the features is 0 at the other half of a writer. As an output is linear
    in its writers, it is the sum of their products with their gradients.
    """
    half = output.shape[-1] // 2
    some = torch.zeros_like(output)
    some[..., :half] = 1
    own = [*parameters.values()]
    found = torch.autograd.grad(output, own, some, retain_graph=True, allow_unused=True)
    pairs = zip(parameters, found, strict=True)
    gradients = {key: g for key, g in pairs if g is not None and g.any()}
    axes = {
        key: axis
        for key, g in gradients.items()
        for axis, size in enumerate(g.shape)
        if size == output.shape[-1] and not g.movedim(axis, -1)[..., half:].any()
    }
    products = [gradients[key] * parameters[key].detach() for key in axes]
    total, size = (
        sum(float(part.sum(dtype=torch.float64)) for part in parts)
        for parts in (products, map(torch.abs, products))
    )
    expected = float(output.detach()[..., :half].sum(dtype=torch.float64))
    # A norm multiplies each feature by a weight of its own, after all matrices.
    if abs(expected - total) > _NEAR * size or all(parameters[key].ndim == 1 for key in axes):
        raise _DoesNotFoldError(
            f"{what} is not written by matrices alone, as behind a norm or with fixed positions"
        )
    return axes, gradients


def fold_everywhere(weights: EditedWeights, found: Writers, erasure: AffineErasure) -> None:
    """Fold a projection into all writers."""
    scaled = replace(erasure, mean=erasure.mean / found.scale)
    weights.erase(found.embedding, 1, scaled)
    for name, axis in found.others.items():
        weights.erase(name, axis, erasure.linear)
