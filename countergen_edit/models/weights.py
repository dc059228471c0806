"""The complete, finite weights of a model directory, or an error in one line."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import Location
from countergen_edit.models.gguf import dequantising

_NUMBER = re.compile(r"\b\d+\b")
_SHOWN = 3


def read_weights(
    auto: Any, location: Location, dtype: torch.dtype, device_map: str | None = None
) -> Any:
    """Load a model with all of its own weights, by a class of transformers.

    Raises
    ------
    UserError
        Files cannot be read or would run code; weights are absent or of another shape (they would
        be random), not finite, or of layers that the config lacks (they would be dropped).
    """
    from safetensors import SafetensorError

    try:
        with without_progress_bar(), dequantising(location) as quantised:
            loaded: Any = auto.from_pretrained(
                location.name,
                dtype=dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, by name
                device_map=device_map,
                trust_remote_code=False,
                **location.options,
                **quantised,
            )
    except pickle.UnpicklingError as error:
        raise UserError(
            f"the weights of {location} are a pickle with more in it than tensors, which could run "
            "code: convert them to safetensors where they come from"
        ) from error
    except (OSError, ValueError, RuntimeError, EOFError, SafetensorError) as error:
        raise UserError(f"cannot load the weights of {location}: {first_line(error)}") from error
    hf_model, report = loaded
    absent = [*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])]
    if absent:
        raise UserError(
            f"{location} lacks {len(absent)} weights of a {type(hf_model).__name__} in the right "
            f"shape, which would be random: {_first(absent)}"
        )
    if dropped := _of_more_layers(report["unexpected_keys"], hf_model):
        raise UserError(
            f"{location} has {len(dropped)} weights of layers that its config.json does not have, "
            f"which would be dropped: {_first(dropped)}"
        )
    if broken := _not_finite(hf_model):
        raise UserError(
            f"{location} has {len(broken)} weights that hold NaN or infinity: {_first(broken)}"
        )
    return hf_model


def _of_more_layers(unexpected: Iterable[str], hf_model: Any) -> list[str]:
    """Unexpected weights of layers; other heads and masks are ignored."""
    own = {_NUMBER.sub("#", key) for key in hf_model.state_dict()}
    return [key for key in unexpected if _NUMBER.sub("#", key) in own]


def _not_finite(hf_model: Any) -> list[str]:
    return [
        name
        for name, weight in hf_model.named_parameters()
        if not weight.is_meta and not torch.isfinite(weight).all()
    ]


def _first(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:_SHOWN]) + (", …" if len(ordered) > _SHOWN else "")


@contextmanager
def without_progress_bar() -> Iterator[None]:
    """Silence the bar of transformers, which also goes to files and pipes."""
    from transformers.utils import logging

    is_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if is_enabled:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def first_line(error: BaseException) -> str:
    """An error message without its trace."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".:")
