"""Settings of a search: which layers it tries, and where activations go.

Goes out: typed values. Refused: what is neither a word that is known nor a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.cli.settings import integers
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.typed import require
from countergen_edit.models import LanguageModel, Scratch


def searched_layers(value: Any, model: LanguageModel) -> tuple[int, ...] | None:
    """The layers that a setting names; None for all.

    Raises:
        UserError: it is neither `all` nor `middle` nor a list of numbers.
    """
    if value == "all":
        return None
    if value == "middle":
        return (model.n_layers // 2 - 1,)
    if isinstance(value, str):
        raise unknown("layers", value, ("all", "middle"))
    layers = integers("layers", value)
    if not layers:
        raise UserError("layers=[] names no layer: write layers=all, or a list such as [2,3]")
    return layers


def scratch(content: Mapping[str, Any]) -> Scratch:
    """Memory and disk for activations.

    Raises:
        UserError: the memory is no number.
    """
    memory = content["memory_gib"]
    require(float, memory, "scratch.memory_gib")
    directory = content["directory"]
    return Scratch(int(memory * 2**30), Path(directory) if directory else None)
