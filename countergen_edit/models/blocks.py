"""Blocks that run as in `transformers` while nothing needs the bridge's wrappers.

The bridge wraps every module. Where batches are small or the device is fast, the wrappers take as
long as the model.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable
from types import MethodType
from typing import Any

from torch import nn

PARTIAL = ("_stop_at_layer_idx", "_start_at_layer_idx")
"""Attributes of a block by which the bridge runs a part of the model."""


def run_stock_blocks(bridge: Any) -> None:
    """Let the blocks of a `TransformerBridge` run their wrappers only where one is hooked.

    The copies without wrappers share weights and PyTorch hooks with the stock modules, and the
    outputs are the same.
    """
    from transformer_lens.model_bridge.generalized_components import BlockBridge

    for block in bridge.original_model.modules():
        if getattr(type(block), "forward", None) is BlockBridge.forward:
            _run_stock(block)


def _run_stock(block: Any) -> None:
    block._maybe_wire_capture_hooks()  # the bridge's own hooks, which alone need no wrappers
    whole = block.original_component
    stock, shared = _unwrapped(whole)
    wrappers = [module for module in block.modules() if id(module) not in shared | {id(block)}]
    ends = (block.hook_in, block.hook_out)

    @functools.wraps(type(whole).forward)  # the bridge reads the signature
    def inner(self: Any, *args: Any, **kwargs: Any) -> Any:
        module = self if self.hooked_inside() else self.stock
        return type(module).forward(module, *args, **kwargs)

    def outer(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Called alone, without keywords, a block of the bridge returns a tuple.
        partial = any(getattr(self, name, None) is not None for name in PARTIAL)
        if partial or not kwargs or self.hooked():
            return type(self).forward(self, *args, **kwargs)
        return self.original_component(*args, **kwargs)

    inside = [module for module in wrappers if module not in ends]
    _set(whole, inner, stock=stock, hooked_inside=_Hooks(inside))
    _set(block, outer, hooked=_Hooks(wrappers))


def _set(module: Any, forward: Any, **attributes: Any) -> None:
    """Set plain attributes, not submodules; bound, so that a copy of the model has its own."""
    for name, value in {**attributes, "forward": MethodType(forward, module)}.items():
        object.__setattr__(module, name, value)


class _Hooks:
    """Whether some modules have other hooks than when this was made (the bridge's own)."""

    def __init__(self, modules: Iterable[Any]) -> None:
        kinds = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks")
        every = [getattr(module, kind) for module in modules for kind in kinds]
        self.empty = [hooks for hooks in every if not hooks]
        self.own = [(hooks, set(hooks)) for hooks in every if hooks]

    def __call__(self) -> bool:
        return any(self.empty) or any(hooks.keys() - own for hooks, own in self.own)


def _unwrapped(module: Any) -> tuple[nn.Module, set[int]]:
    """A copy of a module without wrappers, and the ids of the modules that it shares all with."""
    inner = getattr(module, "original_component", None) or module
    plain, shared = copy.copy(inner), {id(inner)}
    children = {}
    for name, child in inner._modules.items():
        children[name] = child
        if child is not None:
            children[name], more = _unwrapped(child)
            shared |= more
    object.__setattr__(plain, "_modules", children)
    return plain, shared
