"""Edits as folders: `edit.safetensors`, `edit.json` and, for a named edit, `record.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from countergen_edit.core.errors import UserError
from countergen_edit.core.reading import json_mapping
from countergen_edit.core.typed import built
from countergen_edit.core.writing import as_json, whole_folder, write_json
from countergen_edit.edits.edit import Edit, Placement, Shift, tensors
from countergen_edit.edits.record import (
    RECORD,
    WEIGHTS,
    EditRecord,
    Place,
    combined_record,
    edit_id,
    read_record,
)
from countergen_edit.edits.update import LowRankUpdate
from countergen_edit.erasers import AffineErasure, Gate
from countergen_edit.models import LanguageModel

TENSORS = "edit.safetensors"
UPDATE = "update:"
"""Before the names of updated matrices."""
FACTORS = ("lora_A", "lora_B")
_WORDS = "edit.json"


@dataclass(frozen=True)
class _Words:
    """Content of `edit.json`."""

    placements: tuple[Place, ...]
    preface: str = ""
    request: str = ""
    made_for: str | None = None


def save_edit(edit: Edit, directory: Path, made_for: str | None = None) -> None:
    """Write an edit; `edit.json` goes last, so that a folder that has it is complete.

    `made_for` is `LanguageModel.fingerprint` of the model it was fitted on.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / TENSORS).write_bytes(packed(edit))
    words = asdict(_Words(_mapped(edit), edit.preface, edit.request, made_for))
    (directory / _WORDS).write_text(json.dumps(words, indent=2) + "\n", "utf-8")


def packed(edit: Edit) -> bytes:
    """The tensors of an edit as a file of safetensors."""
    # safetensors takes the memory of an array as it lies, transposed views included.
    arrays = {
        f"{i}.{part}": np.ascontiguousarray(array)
        for i, place in enumerate(edit.placements)
        for part, array in tensors(place).items()
    }
    for name, factors in edit.update.factors.items() if edit.update else ():
        for part, array in zip(FACTORS, factors, strict=True):
            arrays[f"{UPDATE}{name}.{part}"] = np.ascontiguousarray(array)
    return save(arrays)


def load_edit(directory: Path, model: LanguageModel | None = None) -> Edit:
    """Read an edit that `save_edit` wrote.

    Raises a `UserError` if the folder holds no valid edit, or one made for another model than
    `model`.
    """
    for name in (_WORDS, TENSORS):
        if not (directory / name).is_file():
            raise UserError(f"{directory} holds no edit: {name} is missing")
    words = built(_Words, json_mapping(directory / _WORDS), f"{directory / _WORDS}: ")
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
    if model and made_for and made_for != model.fingerprint:
        raise UserError(
            f"the edit in {directory} was made for another model (fingerprint {made_for[:8]}, "
            f"{model.name} is {model.fingerprint[:8]}): its directions mean nothing here"
        )
    return Edit(tuple(placements), words.preface, words.request, _update(arrays))


def _update(arrays: Mapping[str, np.ndarray]) -> LowRankUpdate | None:
    names = sorted({key.rpartition(".")[0] for key in arrays if key.startswith(UPDATE)})
    down, up = ([arrays[f"{name}.{part}"] for name in names] for part in FACTORS)
    pairs = zip(down, up, strict=True)
    factors = {name.removeprefix(UPDATE): pair for name, pair in zip(names, pairs, strict=True)}
    return LowRankUpdate(factors) if factors else None


def _map(arrays: Mapping[str, np.ndarray], i: int) -> AffineErasure | Shift:
    own = {k.partition(".")[2]: a for k, a in arrays.items() if k.startswith(f"{i}.")}
    if "vector" in own:
        return Shift(own["vector"])
    gate = Gate(own["gate_weight"], own["gate_bias"].item()) if "gate_weight" in own else None
    return AffineErasure(own["left"], own["right"], own["mean"], gate)


@dataclass(frozen=True, eq=False)
class NamedEdit:
    """An edit and its record."""

    record: EditRecord
    edit: Edit = field(repr=False)

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def label(self) -> str:
        return self.record.label

    @classmethod
    def of(
        cls,
        edit: Edit,
        eraser: str,
        params: Mapping[str, Any] | None = None,
        *,
        basis: object = None,
        **about: Any,
    ) -> NamedEdit:
        """Name an edit that was fitted as one.

        The id is a digest of `basis`, all that the fit depends on, or else of the tensors; `about`
        holds fields of `EditRecord`. An edit with a `baseline_kind` is a baseline.
        """
        key = edit_id(eraser, edit.digest if basis is None else basis)
        about["baseline"] = about.get("baseline", False) or bool(about.get("baseline_kind"))
        about["after"] = tuple(about.get("after", ()))
        return cls(EditRecord(key, eraser, as_json(params or {}), _places(edit), **about), edit)

    @classmethod
    def combined(cls, parts: Sequence[NamedEdit]) -> NamedEdit:
        """Combine edits, which act in their order; errors as in `combined_record`."""
        if len(parts) == 1:
            return parts[0]
        record = combined_record([part.record for part in parts])
        edit = reduce(Edit.then, (part.edit for part in parts))
        return cls(replace(record, places=_places(edit)), edit)  # one place of all updates

    def save(self, directory: Path, made_for: str | None = None) -> None:
        """Write the edit as a folder, atomically; an existing folder is replaced."""
        with whole_folder(directory) as folder:
            save_edit(self.edit, folder, made_for=made_for)
            write_json(folder / RECORD, self.record.to_dict())

    @classmethod
    def load(cls, directory: Path) -> NamedEdit:
        """Read an edit that `save` wrote; raises a `UserError` if it is missing or inconsistent."""
        record, edit = read_record(directory), load_edit(directory)
        if record.places != _places(edit):
            raise UserError(f"{directory} is damaged: {RECORD} has other places than the edit")
        return cls(record, edit)


def _places(edit: Edit) -> tuple[Place, ...]:
    updated = (Place(WEIGHTS, None, edit.update.rank),) if edit.update else ()
    return (*updated, *_mapped(edit))


def _mapped(edit: Edit) -> tuple[Place, ...]:
    return tuple(Place(p.site, p.layer, p.erasure.rank, p.limit) for p in edit.placements)
