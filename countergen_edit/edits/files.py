"""An edit as a folder: `edit.safetensors` with its tensors, `edit.json` with its places."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from countergen_edit.edits.edit import Edit, Placement, tensors
from countergen_edit.edits.shift import Shift
from countergen_edit.erasers import AffineErasure, Gate
from countergen_edit.errors import UserError
from countergen_edit.models import LanguageModel
from countergen_edit.reading import json_mapping
from countergen_edit.typed import built

TENSORS = "edit.safetensors"
WORDS = "edit.json"
_PARTS = ("left", "right", "mean")


@dataclass(frozen=True)
class _Placed:
    site: str
    layer: int | None
    limit: float | None = None  # folders from before there were limits have none


@dataclass(frozen=True)
class _Words:
    """What `edit.json` says."""

    placements: tuple[_Placed, ...]
    preface: str = ""
    request: str = ""
    made_for: str | None = None


def save_edit(edit: Edit, directory: Path, made_for: str | None = None) -> None:
    """Write an edit; the words go last, so that a folder with words is whole.

    Args:
        edit: what to write.
        directory: made if it is not there.
        made_for: `LanguageModel.fingerprint` of the model whose activations it was fitted on.
    """
    directory.mkdir(parents=True, exist_ok=True)
    # safetensors takes the memory of an array as it lies, transposed views included.
    arrays = {
        f"{i}.{part}": np.ascontiguousarray(array)
        for i, place in enumerate(edit.placements)
        for part, array in tensors(place).items()
    }
    (directory / TENSORS).write_bytes(save(arrays))
    words = {
        "placements": [
            {"site": p.site, "layer": p.layer, "limit": p.limit} for p in edit.placements
        ],
        "preface": edit.preface,
        "request": edit.request,
        "made_for": made_for,
    }
    (directory / WORDS).write_text(json.dumps(words, indent=2) + "\n", "utf-8")


def load_edit(directory: Path, model: LanguageModel | None = None) -> Edit:
    """Read an edit that `save_edit` wrote.

    Args:
        directory: the folder.
        model: the model it is meant for, if it should be checked.

    Raises:
        UserError: the folder holds no edit, its files do not belong together, or it was made for
            another model.
    """
    for name in (WORDS, TENSORS):
        if not (directory / name).is_file():
            raise UserError(f"{directory} holds no edit: {name} is missing")
    words = built(_Words, json_mapping(directory / WORDS), f"{directory / WORDS}: ")
    try:
        arrays = load_file(directory / TENSORS)
        placements = [
            Placement(place.site, place.layer, _map(arrays, i), place.limit)
            for i, place in enumerate(words.placements)
        ]
    except KeyError as error:
        raise UserError(f"{directory / TENSORS} lacks the tensor {error}") from error
    except (OSError, TypeError, ValueError, SafetensorError) as error:
        raise UserError(f"{directory / TENSORS} holds no readable edit: {error}") from error
    made_for = words.made_for
    if model is not None and made_for is not None and made_for != model.fingerprint:
        raise UserError(
            f"the edit in {directory} was made for another model (fingerprint {made_for[:8]}, "
            f"{model.name} is {model.fingerprint[:8]}): its directions mean nothing here"
        )
    return Edit(tuple(placements), words.preface, words.request)


def _map(arrays: Mapping[str, np.ndarray], i: int) -> AffineErasure | Shift:
    if f"{i}.vector" in arrays:
        return Shift(arrays[f"{i}.vector"])
    gate = None
    if f"{i}.gate_weight" in arrays:
        gate = Gate(arrays[f"{i}.gate_weight"], float(arrays[f"{i}.gate_bias"].item()))
    left, right, mean = (arrays[f"{i}.{part}"] for part in _PARTS)
    return AffineErasure(left, right, mean, gate)
