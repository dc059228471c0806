"""The stock Hugging Face architecture behind a bridge: its weights, modules and writers.

Module names are found by asking the bridge and by watching a forward pass, for any family.

A projection at every point of the residual stream folds too. With P = I - L R, R L = I and
c = L R m, the map π(x) = P x + c at every point is, in weights,

    E' = E Pᵀ + c in each row        W' = P W        b' = P b

for the token embedding E and all other writers: tables of positions, and the last matrices of
attention, MLPs and experts. They are found by gradients in one forward pass: feature i of a writer
changes feature i of what is added to the stream, and no other.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from countergen_edit.core.errors import UserError
from countergen_edit.edits.edit import split_matrices
from countergen_edit.models import LanguageModel, hook_name
from countergen_edit.models.capture import EVERYWHERE, added_to_stream, head_of
from countergen_edit.models.language_model import NAMES_CODE, Vectors, stock_name

PROBE_TOKENS = 8
UNTIED = {"tie_word_embeddings": False}
"""Of the config: the output matrix must stay while the embedding changes."""
_NEAR = 0.03
"""Relative difference of sums that rounding explains, in half precision too."""
_START = ""


def module_name(model: LanguageModel, site: str, layer: int | None) -> str:
    """The module whose output begins with an activation; `UserError` if none does."""
    if site == EVERYWHERE:
        raise UserError("an edit everywhere is at no single module: save it alone, form=folded")
    if head_of(site) is not None:
        raise UserError("an edit at a head is at no module's output: save it with form=folded")
    [name] = module_names(model, [(site, layer)])
    return name


def module_names(model: LanguageModel, places: Sequence[tuple[str, int | None]]) -> list[str]:
    """The module of each site and layer; `UserError` if there is none."""
    stock = stock_modules(model)
    # The bridge lists a module under names of its own too.
    modules = model.bridge.original_model.named_modules(remove_duplicate=False)
    names = {id(module): stock_name(key) for key, module in modules if stock_name(key) in stock}
    by_hook = {}
    for component in model.bridge.modules():
        name = names.get(id(getattr(component, "original_component", None)))
        if name is not None:
            by_hook[id(getattr(component, "hook_out", None))] = name
    modules_at = []
    for site, layer in places:
        hook = model.bridge.hook_dict[hook_name(model, site, layer)]
        if id(hook) not in by_hook:
            raise UserError(
                f"the activation of {model.name} at site {site}, layer {layer}, is not a module's "
                "output, so a checkpoint cannot hold the edit: choose site resid_post"
            )
        modules_at.append(by_hook[id(hook)])
    return modules_at


def projection_name(model: LanguageModel, site: str, layer: int | None) -> str:
    """The matrix whose output equals the activation at the site, bit for bit; of a head its input.

    `UserError` if a norm, a mixture of experts or a skip path follows the last matrix.
    """
    activations: list[Tensor] = []
    seen: dict[str, Tensor] = {}

    def keep(key: str, matrix: nn.Module, module: nn.Module, args: Any, output: Tensor) -> None:
        seen[key] = output if head_of(site) is None else args[0]

    read = (hook_name(model, site, layer), lambda x, hook: activations.append(x.clone()))
    with model.bridge.hooks(fwd_hooks=[read]):
        _watch_matrices(model, keep)
    activation = activations[0].flatten()
    names = [key for key, x in seen.items() if torch.equal(x.flatten(), activation)]
    if len(names) != 1:
        raise UserError(
            f"an edit at site {site} does not fold into the weights of {model.name}: its "
            "activation is not the plain output of one matrix; save it with form=carried"
        )
    return names[0]


def linear_modules(model: LanguageModel) -> dict[str, Any]:
    """The linear modules that a forward pass of the bridge runs, in order, by their stock names.

    A joint matrix of queries, keys and values counts as run when the bridge runs its parts.
    """
    run = dict[str, Any]()
    _watch_matrices(model, lambda key, matrix, *_: run.update({key: matrix}))
    return run


def _watch_matrices(model: LanguageModel, keep: Callable[..., None]) -> None:
    """Call `keep(stock name, matrix, module, inputs, output)` as linear modules run a few tokens.

    The module is the matrix itself, or a part of a joint one.
    """
    from transformers.pytorch_utils import Conv1D

    stock = stock_modules(model)
    parts = split_matrices(model.bridge)
    ids = torch.arange(min(PROBE_TOKENS, model.vocab_size))[None]
    with ExitStack() as stack:
        for key, matrix in model.bridge.original_model.named_modules(remove_duplicate=False):
            if isinstance(matrix, nn.Linear | Conv1D) and stock_name(key) in stock:
                hook = partial(keep, stock_name(key), matrix)
                for part, _ in parts.get(id(matrix), [(matrix, None)]):
                    stack.callback(part.register_forward_hook(hook).remove)
        model.run_blocks(ids, torch.ones_like(ids))


def stock_modules(model: LanguageModel) -> set[str]:
    """Names of all modules of the stock architecture."""
    return {name for name, _ in empty_stock_model(model).named_modules()}


def stock_classes(model: LanguageModel) -> tuple[str, str]:
    """Names of the config's and model's class; `UserError` unless of transformers."""
    import transformers

    wrapped = model.bridge.original_model
    classes = type(wrapped.config), type(wrapped)
    for cls in classes:
        if getattr(transformers, cls.__name__, None) is not cls:
            raise UserError(
                f"{cls.__name__} of {model.name} is not a class of transformers, so a checkpoint "
                "cannot build on it: convert the model to a stock architecture first"
            )
    return classes[0].__name__, classes[1].__name__


def empty_stock_model(model: LanguageModel, **changes: Any) -> Any:
    """The stock architecture on the meta device; `changes` are of its config."""
    wrapped = model.bridge.original_model
    config = copy.deepcopy(wrapped.config)
    _forget_code(config)
    for key, value in changes.items():
        setattr(config, key, value)
    with torch.device("meta"):
        return type(wrapped)(config)


def _forget_code(config: Any) -> None:
    from transformers import PreTrainedConfig

    for key in NAMES_CODE:
        vars(config).pop(key, None)
    for part in vars(config).values():
        if isinstance(part, PreTrainedConfig):
            _forget_code(part)


def stock_model(model: LanguageModel, **changes: Any) -> Any:
    """The stock model, sharing weights with the bridge; a bias only in the changed config is zero.

    `UserError` if weights are offloaded, or not those of the architecture.
    """
    wrapped = model.bridge.original_model
    plain = empty_stock_model(model, **changes)
    tensors = {stock_name(key): tensor for key, tensor in wrapped.state_dict().items()}
    state = {}
    for key, empty in plain.state_dict().items():
        new = torch.zeros(empty.shape, dtype=model.dtype) if key.endswith(".bias") else empty
        state[key] = tensors.get(key, new)
        if state[key].is_meta or state[key].shape != empty.shape:
            raise UserError(
                f"cannot save {model.name}: its weight {key} is not in memory as the architecture "
                "has it; load it without device_map"
            )
    plain.load_state_dict(state, assign=True)
    plain.tie_weights()
    buffers = {stock_name(k): b for k, b in wrapped.named_buffers(remove_duplicate=False)}
    for key, empty in [*plain.named_buffers()]:
        if empty.is_meta and key in buffers:  # no part of the state, such as rotary frequencies
            owner, _, name = key.rpartition(".")
            plain.get_submodule(owner).register_buffer(name, buffers[key], persistent=False)
    plain.generation_config = wrapped.generation_config
    return plain.requires_grad_(False).eval()


@dataclass(frozen=True)
class Writers:
    """The parameters that write a stock model's residual stream."""

    embedding: str
    scale: float
    """By which the model multiplies the token embedding."""
    others: dict[str, int]
    """Each with the axis of its features."""


def stream_writers(model: LanguageModel, plain: Any = None) -> Writers:
    """Find the writers of `plain`, the stock model of `model` with untied embeddings.

    `UserError` if the stream is anything but a sum of what they write, as behind a norm.
    """

    def refuse(reason: str) -> UserError:
        return UserError(
            f"an edit everywhere does not fold into the weights of {model.name}: {reason}; save "
            "one of a layer with form=carried"
        )

    plain = plain or stock_model(model, **UNTIED)
    blocks = module_names(model, [("resid_post", layer) for layer in range(model.n_layers)])
    try:
        added = module_names(model, added_to_stream(model))
    except UserError:
        raise refuse(
            "its blocks add what is not a module's output to the residual stream, as a scaled one"
        ) from None
    embed = plain.get_input_embeddings()
    # The padding token has no gradient.
    tokens = [i for i in range(model.vocab_size) if i != embed.padding_idx][:PROBE_TOKENS]
    ids = torch.tensor(tokens, device=model.device)
    with torch.enable_grad(), ExitStack() as stack:
        stack.callback(plain.requires_grad_, False)
        seen = _outputs(plain.requires_grad_(True), [*blocks, *added], blocks[0], ids)
        prefix = f"{blocks[0].rpartition('.')[0]}."
        outside = {key: p for key, p in plain.named_parameters() if not key.startswith(prefix)}
        others, gradients = _written(seen[_START], outside, "the input of its first block", refuse)
        [embedding] = [key for key, parameter in outside.items() if parameter is embed.weight]
        if others.pop(embedding, None) is None:
            raise refuse("a matrix stands between its token embedding and its blocks")
        for name in added:
            module = plain.get_submodule(name)
            what = f"the output of {name}, a {type(module).__name__},"
            inside = dict(module.named_parameters(prefix=name))
            axes, reached = _written(seen[name], inside, what, refuse)
            if idle := [key for key, p in inside.items() if p.ndim > 1 and key not in reached]:
                raise refuse(f"{idle[0]} was not reached by {PROBE_TOKENS} tokens")
            others |= axes
    points = [seen[_START], *(seen[name] for name in blocks)]
    of_block = zip(added[::2], added[1::2], strict=True)
    for (before, after), (attention, mlp) in zip(pairwise(points), of_block, strict=True):
        total = before + seen[attention].view_as(before) + seen[mlp].view_as(before)
        if (after - total).abs().max() > _NEAR * after.abs().max():
            raise refuse(
                "its blocks do more than add the outputs of attention and MLP to the residual "
                "stream, such as norm the sum"
            )
    return Writers(embedding, float(gradients[embedding][ids].max()), others)


def _outputs(plain: Any, names: Sequence[str], block: str, ids: Tensor) -> dict[str, Vectors]:
    """The output of each module, and at `_START` the input of a block."""
    seen: dict[str, Tensor] = {}

    def keep(name: str, module: Any, inputs: Any, output: Any) -> None:
        # A copy, as Falcon adds to the output of an MLP in place.
        seen[name] = (output if isinstance(output, Tensor) else output[0]).clone()

    def keep_input(module: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        seen[_START] = args[0] if args else kwargs["hidden_states"]

    with ExitStack() as stack:
        first = plain.get_submodule(block)
        stack.enter_context(first.register_forward_pre_hook(keep_input, with_kwargs=True))
        for name in names:
            module = plain.get_submodule(name)
            stack.enter_context(module.register_forward_hook(partial(keep, name)))
        plain.base_model(input_ids=ids[None], use_cache=False)
    return seen


def _written(
    output: Vectors,
    parameters: Mapping[str, nn.Parameter],
    what: str,
    refuse: Callable[[str], UserError],
) -> tuple[dict[str, int], dict[str, Tensor]]:
    """The writers of an output among parameters, each with the axis of its features; gradients.

    The gradient of half of the features is 0 at the other half of a writer. As an output is linear
    in its writers, it is the sum of their products with their gradients.
    """
    half = output.shape[-1] // 2
    weights = torch.zeros_like(output)
    weights[..., :half] = 1
    tensors = [*parameters.values()]
    grads = torch.autograd.grad(output, tensors, weights, retain_graph=True, allow_unused=True)
    pairs = zip(parameters, grads, strict=True)
    gradients = {key: g for key, g in pairs if g is not None and g.any()}
    axes = {
        key: axis
        for key, g in gradients.items()
        for axis, size in enumerate(g.shape)
        if size == output.shape[-1] and not g.movedim(axis, -1)[..., half:].any()
    }
    products = [gradients[key] * parameters[key].detach() for key in axes]
    total = sum(float(part.sum(dtype=torch.float64)) for part in products)
    size = sum(float(part.abs().sum(dtype=torch.float64)) for part in products)
    expected = float(output.detach()[..., :half].sum(dtype=torch.float64))
    # A norm multiplies each feature by a weight of its own, after all matrices.
    if abs(expected - total) > _NEAR * size or all(parameters[key].ndim == 1 for key in axes):
        raise refuse(
            f"{what} is not written by matrices alone, as behind a norm or with fixed positions"
        )
    return axes, gradients
