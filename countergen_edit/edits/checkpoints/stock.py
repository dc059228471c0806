"""Modules and weights of the stock Hugging Face architecture behind a bridge.

Module names are found by asking the bridge and by watching a forward pass, for any family.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from countergen_edit.core.errors import UserError
from countergen_edit.edits.update import split_matrices
from countergen_edit.models import NAMES_CODE, LanguageModel, hook_name
from countergen_edit.models.capture import EVERYWHERE, head_of
from countergen_edit.models.language_model import stock_name

PROBE_TOKENS = 8


def module_name(model: LanguageModel, site: str, layer: int | None) -> str:
    """The module whose output begins with a site's activation; `UserError` if none does."""
    if site == EVERYWHERE:
        raise UserError("an edit everywhere is at no single module: save it alone, form=folded")
    if head_of(site) is not None:
        raise UserError("an edit at a head is at no module's output: save it with form=folded")
    [name] = module_names(model, [(site, layer)])
    return name


def module_names(model: LanguageModel, places: Sequence[tuple[str, int | None]]) -> list[str]:
    """The module of each site and layer; raises a `UserError` if there is none."""
    stock = stock_modules(model)
    # The bridge lists a module under names of its own too.
    modules = model.bridge.original_model.named_modules(remove_duplicate=False)
    names = {id(module): stock_name(key) for key, module in modules if stock_name(key) in stock}
    by_hook = {}
    for component in model.bridge.modules():
        name = names.get(id(getattr(component, "original_component", None)))
        if name is not None:
            by_hook[id(getattr(component, "hook_out", None))] = name
    found = []
    for site, layer in places:
        hook = model.bridge.hook_dict[hook_name(model, site, layer)]
        if id(hook) not in by_hook:
            raise UserError(
                f"the activation of {model.name} at site {site}, layer {layer}, is not a module's "
                "output, so a checkpoint cannot hold the edit: choose site resid_post"
            )
        found.append(by_hook[id(hook)])
    return found


def projection_name(model: LanguageModel, site: str, layer: int | None) -> str:
    """The matrix whose output equals the activation at the site, bit for bit; of a head its input.

    Raises a `UserError` if a norm, a mixture of experts or a skip path follows the last matrix.
    """
    activations: list[Tensor] = []
    seen: dict[str, Tensor] = {}

    def keep(key: str, matrix: nn.Module, module: nn.Module, args: Any, output: Tensor) -> None:
        seen[key] = output if head_of(site) is None else args[0]

    read = (hook_name(model, site, layer), lambda x, hook: activations.append(x.clone()))
    with model.bridge.hooks(fwd_hooks=[read]):
        _watch_matrices(model, keep)
    [activation] = activations
    sized = {key: x for key, x in seen.items() if x.numel() == activation.numel()}
    names = [k for k, x in sized.items() if torch.equal(x.reshape(activation.shape), activation)]
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

    stock, parts = stock_modules(model), split_matrices(model.bridge)
    ids = torch.arange(min(PROBE_TOKENS, model.vocab_size))[None]
    with ExitStack() as stack:
        for key, matrix in model.bridge.original_model.named_modules(remove_duplicate=False):
            if isinstance(matrix, nn.Linear | Conv1D) and stock_name(key) in stock:
                hook = functools.partial(keep, stock_name(key), matrix)
                for part, _ in parts.get(id(matrix), [(matrix, None)]):
                    stack.callback(part.register_forward_hook(hook).remove)
        model.run_blocks(ids, torch.ones_like(ids))


def stock_modules(model: LanguageModel) -> set[str]:
    """Names of all modules of the stock architecture."""
    return {name for name, _ in empty_stock_model(model).named_modules()}


def stock_classes(model: LanguageModel) -> tuple[str, str]:
    """Names of the config's and the model's class; raises a `UserError` unless in transformers."""
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
    """The stock architecture on the meta device, with its config changed without custom code."""
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

    Raises a `UserError` if weights are offloaded, or not those of the architecture.
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
    buffers = {
        stock_name(key): buffer for key, buffer in wrapped.named_buffers(remove_duplicate=False)
    }
    for key, empty in [*plain.named_buffers()]:
        if empty.is_meta and key in buffers:  # no part of the state, such as rotary frequencies
            owner, _, name = key.rpartition(".")
            plain.get_submodule(owner).register_buffer(name, buffers[key], persistent=False)
    plain.generation_config = wrapped.generation_config
    return plain.requires_grad_(False).eval()
