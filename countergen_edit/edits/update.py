"""Low-rank updates of weight matrices, attached to a model as LoRA layers are.

y = W x + B (A x) for each matrix W (Hu et al. 2021, arXiv 2106.09685, equation 3). Attached, an
update leaves the weights as they are; merged, W + B A is an ordinary matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from countergen_edit.core.errors import UserError
from countergen_edit.models.language_model import stock_name

Factors = tuple[Float[np.ndarray, "rank d_in"], Float[np.ndarray, "d_out rank"]]
"""A and B of a matrix, with the scale in B."""


@dataclass(frozen=True, eq=False)
class LowRankUpdate:
    """A and B of each updated matrix, by its module's name in the stock architecture."""

    factors: Mapping[str, Factors]

    @property
    def rank(self) -> int:
        """The largest rank of a matrix's update."""
        return max(len(a) for a, _ in self.factors.values())

    def scaled(self, factor: float) -> LowRankUpdate:
        return LowRankUpdate({name: (a, factor * b) for name, (a, b) in self.factors.items()})

    def then(self, other: LowRankUpdate) -> LowRankUpdate:
        """The sum of two updates, of the sum of their ranks."""
        merged = dict(self.factors)
        for name, (a, b) in other.factors.items():
            down, up = merged.get(name, (a[:0], b[:, :0]))
            merged[name] = np.vstack([down, a]), np.hstack([up, b])
        return LowRankUpdate(merged)

    @contextmanager
    def attached(self, bridge: Any) -> Iterator[None]:
        """Run a block with the update; raises a `UserError` for a matrix that the model lacks."""
        modules = {
            stock_name(name): module
            for name, module in bridge.original_model.named_modules(remove_duplicate=False)
            if hasattr(module, "weight")
        }
        parts = split_matrices(bridge)
        updated = set[int]()
        with ExitStack() as stack:
            for name, (a, b) in self.factors.items():
                module = modules.get(name)
                if module is None or sorted(module.weight.shape) != sorted((len(b), a.shape[1])):
                    raise UserError(
                        f"the edit updates {name} [{len(b)}, {a.shape[1]}], which the model does "
                        "not have"
                    )
                for part, rows in parts.get(id(module), [(module, slice(None))]):
                    stack.callback(part.register_forward_hook(_adding(a, b[rows])).remove)
                    updated.add(id(part))
            # Models that skip blocks look for hooks of the bridge, here on the first that changes.
            of_blocks = [{*map(id, block.modules())} for block in bridge.blocks]
            lowest = next(i for i, own in enumerate(of_blocks) if own & updated)
            hooks = [(f"blocks.{lowest}.hook_in", lambda x, hook: x)]
            stack.enter_context(bridge.hooks(fwd_hooks=hooks))
            yield


def split_matrices(bridge: Any) -> dict[int, list[tuple[Any, Any]]]:
    """Joint matrices of queries, keys and values, which the bridge splits instead of running them.

    Returns:
        The id of each module → the modules that run in its place, each with its output rows.
    """
    found = {}
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
        found[id(joint)] = list(zip(running, rows, strict=True))
    return found


def _adding(a: np.ndarray, b: np.ndarray) -> Any:
    """A hook that adds B (A x) to a module's output."""

    @cache
    def factors(device: torch.device, dtype: torch.dtype) -> list[Tensor]:
        with torch.inference_mode(False):  # gradients may pass later
            return [torch.tensor(m, device=device, dtype=dtype).T for m in (a, b)]

    def add(module: Any, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        x = inputs[0]
        wide = torch.promote_types(x.dtype, torch.float32)
        down, up = factors(x.device, wide)
        changed: Tensor = output + ((x.to(wide) @ down) @ up)
        return changed.to(output.dtype)

    return add
