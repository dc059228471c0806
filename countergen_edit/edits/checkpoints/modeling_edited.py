"""A language model with edited activations: x - g(x) left (right x - offset).

The gate g(x) is min(1, max(0, gate_weight · x + gate_bias)), 1 everywhere for most edits. A token
whose activation has a norm above `limit`, an attention sink, is not edited.

Written by countergen-edit into the checkpoint; needs torch and transformers only:

    AutoModelForCausalLM.from_pretrained(FOLDER, trust_remote_code=True)

Each erasure is a child `erasure` of the module whose output it edits. The weights lie in
model.edited.safetensors, which the stock class does not find: it would be the unedited model.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import GPT2Config as StockConfig
from transformers import GPT2LMHeadModel as StockModel

VARIANT = "edited"
"""Variant of the names of weight files."""
_PARTS = ("left", "right", "offset", "limit", "gate_weight", "gate_bias")
"""Tensors of an erasure."""


class EditedConfig(StockConfig):  # type: ignore[no-untyped-call]
    """The stock config, and `erasures`: the module, width and rank of each.

    The model type differs from the stock one's, so that loading without `trust_remote_code` fails
    instead of giving the unedited model.
    """

    model_type = "countergen_edited"


class Erasure(nn.Module):
    """x - g(x) left (right x - offset) over the last axis, unless the norm of x exceeds `limit`."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        shapes = ((width, rank), (rank, width), (rank,), (), (width,), ())
        for name, shape in zip(_PARTS, shapes, strict=True):
            # Not zeros: an erasure without its values must not pass for one that changes nothing.
            # Half precision, the default of a model in it, is widened, as in `forward`.
            wide = torch.promote_types(torch.get_default_dtype(), torch.float32)
            self.register_buffer(name, torch.full(shape, torch.nan, dtype=wide))

    def forward(self, x: Tensor) -> Tensor:
        """Erase; half precision is widened, as a small change would be lost in its rounding."""
        wide = torch.promote_types(x.dtype, torch.float32)
        # Copies, as a tensor mapped from a file may lie unaligned, and be rounded otherwise.
        left, right, offset, limit, gate_weight, gate_bias = (
            getattr(self, name).to(x.device, wide, copy=True) for name in _PARTS
        )
        y = x.to(wide)
        gate = (y @ gate_weight + gate_bias).clamp(0.0, 1.0)[..., None]
        edited = (y - gate * ((y @ right.T - offset) @ left.T)).to(x.dtype)
        return torch.where(torch.linalg.vector_norm(y, dim=-1, keepdim=True) > limit, x, edited)

    def edit(self, module: nn.Module, args: Any, output: Any) -> Any:
        """Forward hook; some modules return a tensor, others a tuple that begins with it."""
        if isinstance(output, Tensor):
            return self(output)
        return (self(output[0]), *output[1:])

    def _apply(self, fn: Any, recurse: bool = True) -> "Erasure":
        """Follow a model to its device, but not to half precision."""

        def keep_precision(tensor: Tensor) -> Tensor:
            moved: Tensor = fn(tensor)
            narrowed = moved.dtype in (torch.float16, torch.bfloat16)
            return tensor.to(moved.device) if narrowed else moved

        super()._apply(keep_precision, recurse)  # type: ignore[no-untyped-call]
        return self


class EditedForCausalLM(StockModel):  # type: ignore[no-untyped-call]
    """The stock model with its erasures."""

    config_class = EditedConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        for place in config.erasures:
            module = self.get_submodule(place["module"])
            erasure = Erasure(place["width"], place["rank"])
            module.erasure = erasure
            # A bound method, so that a deep copy of the model edits by its own erasure.
            module.register_forward_hook(erasure.edit)

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """Load as usual, and refuse a checkpoint without its erasures or weights.

        Another version of transformers may have other names for them.
        """
        kwargs.setdefault("variant", VARIANT)
        loaded: Any = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        model, report = loaded
        keys = [(kind, str(key)) for kind, names in report.items() for key in names]
        absent = [key for kind, key in keys if kind == "missing_keys" or ".erasure." in key]
        for name in (place["module"] for place in model.config.erasures):
            if not isinstance(getattr(model.get_submodule(name), "erasure", None), Erasure):
                absent.append(f"{name}.erasure")  # its module was replaced, say quantized
        if absent:
            raise ValueError(
                f"{absent[0]} was not loaded: this would not be the edited model; the checkpoint "
                "is damaged, this version of transformers has other names, or another library "
                "replaced the module that carries the edit"
            )
        return (model, report) if output_loading_info else model

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Save under the names by which `from_pretrained` finds the weights."""
        super().save_pretrained(*args, **({"variant": VARIANT} | kwargs))
