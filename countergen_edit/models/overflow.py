"""Logits that are not finite, refused with the first module whose output is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor

from countergen_edit.core.errors import UserError


class OverflowedError(UserError):
    """A text whose logits are not finite."""


def require_finite(
    logits: Tensor, inputs_of: Callable[[int], dict[str, Any]], hf_model: Any, owner: Any
) -> None:
    """Raise an `OverflowedError` for a row of `owner`'s that is not finite, and is run again."""
    broken = (~(logits.amin(-1).isfinite() & logits.amax(-1).isfinite())).nonzero()
    if not len(broken):
        return
    inputs, found = inputs_of(int(broken[0, 0])), list[str]()
    with ExitStack() as stack, torch.inference_mode():
        for name, module in hf_model.named_modules():
            if type(module).__name__ != "HookPoint":  # some of them hold masked scores
                watch = partial(_watch, found, name.replace("._original_component", ""))
                stack.callback(module.register_forward_hook(watch).remove)
        hf_model(**inputs)
    dtype = str(hf_model.dtype).removeprefix("torch.")
    half = dtype == "float16"
    advice = "use model.dtype=bfloat16 or float32" if half else "check its weights and config.json"
    text = owner.tokenizer.decode(inputs["input_ids"][0], skip_special_tokens=True)[:60]
    where = f"in {[*found, 'its logits'][0]} on the text {text!r}"
    raise OverflowedError(f"{owner.name} overflows {dtype} {where}: {advice}")


def _watch(found: list[str], name: str, module: Any, inputs: Any, output: Any) -> None:
    first = output[0] if isinstance(output, tuple) else output
    if isinstance(first, Tensor) and not first.isfinite().all():
        found.append(name)
