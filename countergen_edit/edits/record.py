"""Named edits: an edit, and the record of its id, origin and label; both as a folder.

The folder has `edit.safetensors`, `edit.json` and, for a named edit, `record.json`.
"""

from __future__ import annotations

import json
from collections import defaultdict
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
from countergen_edit.core.writing import as_json, digest, whole_folder, write_json
from countergen_edit.edits.edit import Edit, LowRankUpdate, Placement, Shift, tensors
from countergen_edit.erasers import AffineErasure, Gate
from countergen_edit.models import LanguageModel

TENSORS, _WORDS, RECORD = "edit.safetensors", "edit.json", "record.json"
FACTORS = ("lora_A", "lora_B")
_UPDATE = "update:"
"""Before the names of updated matrices."""
WEIGHTS = "weights"
"""The site of an update of weight matrices."""
COMBINED = "combination"
"""The eraser of an edit whose parts differ in eraser, parameters, site or task."""
PROMPTING, TEMPLATE_KEY = "prompting", "template"
"""Kinds of baselines: a request in the prompt, and the chat template alone."""
MOST_PARTS, NAMED_PARTS = 6, 2
"""Parts up to which a label names each, and those that it names of more."""


@dataclass(frozen=True)
class Place:
    """Where an erasure acts, and its rank; the limit depends on data."""

    site: str
    layer: int | None
    rank: int
    limit: float | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """The site and layer; of a head its layer and number, as in `head.25.1`."""
        if self.layer is None:
            return self.site
        name, _, head = self.site.partition(".")
        return ".".join(filter(None, (name, str(self.layer), head)))


@dataclass(frozen=True)
class EditRecord:
    """The origin of an edit, without its tensors."""

    id: str
    """Digest of all that the edit depends on."""
    eraser: str
    """Its name in the run; `COMBINED` for several."""
    params: Mapping[str, Any]
    """Parameters of the eraser that are not defaults."""
    places: tuple[Place, ...]
    parts: tuple[EditRecord, ...] = ()
    """Empty for an edit that was fitted as one."""
    baseline: bool = False
    """Whether it is a control or another method, which is never selected."""
    task: str = ""
    """The tasks that it was fitted on, joined by `+`."""
    baseline_kind: str = ""
    """The method, if it is one that edits are compared with."""
    variant: str = ""
    """Distinguishes edits of one eraser and place: a request, a strength."""
    after: tuple[Place, ...] = ()
    """Places of the edits under which it was fitted."""

    @property
    def rank(self) -> int:
        """Dimensions removed, summed over places."""
        return sum(place.rank for place in self.places)

    @property
    def layers(self) -> tuple[int, ...]:
        return tuple(place.layer for place in self.places if place.layer is not None)

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.site for place in self.places))

    @property
    def is_stock(self) -> bool:
        """Whether weights hold such edits: not of one point of the stream or some tokens."""
        return all(p.site not in ("resid_post", "embed") and p.limit is None for p in self.places)

    @property
    def label(self) -> str:
        """The label in tables, which is never parsed.

        >>> EditRecord("1f", "rlace", {}, (Place("resid_post", 3, 1),)).label
        'rlace-1@resid_post.3'
        >>> parts = [EditRecord("a", "leace", {}, (Place("resid_post", i, 1),)) for i in (2, 3)]
        >>> EditRecord("1f", COMBINED, {}, parts[0].places + parts[1].places, (*parts,)).label
        'leace-1@resid_post.2 + leace-1@resid_post.3'
        >>> EditRecord("1f", "prompting", {}, (), variant="alike").label
        'prompting (alike)'
        >>> EditRecord("1f", "leace", {}, parts[1].places, after=parts[0].places).label
        'leace-1@resid_post.3 (after resid_post.2)'
        """
        if self.eraser != COMBINED:
            rank = f"-{self.rank}" if self.rank else ""
            place = f"@{_join(self.places)}" if self.places else ""
            after = f"after {_join(self.after)}" if self.after else ""
            note = ", ".join(filter(None, (self.variant, after)))
            return f"{self.eraser}{rank}{place}" + (f" ({note})" if note else "")
        labels = []
        for part in (replace(part, after=()) for part in self.parts):
            labels.append(part.label + (f" ({part.task})" if part.task != self.task else ""))
        if len(labels) > MOST_PARTS:
            labels[NAMED_PARTS:] = [f"{len(labels) - NAMED_PARTS} more"]
        return " + ".join(labels)

    @property
    def name_in_text(self) -> str:
        """The name in sentences, with places only if there are several.

        >>> EditRecord("1f", "rlace", {}, (Place("resid_post", 3, 1),)).name_in_text
        'rlace (rank 1)'
        """
        return self.label if len(self.places) > 1 else f"{self.eraser} (rank {self.rank})"

    @property
    def columns(self) -> dict[str, Any]:
        return {
            "edit": self.id,
            "eraser": self.eraser,
            "site": "+".join(self.sites),
            "layers": self.layers,
            "rank": self.rank,
            "baseline": self.baseline,
        }


def read_record(directory: Path) -> EditRecord:
    """The record of a saved edit; `UserError` if it is missing."""
    path = directory / RECORD
    if not path.is_file():
        raise UserError(f"{directory} holds no edit: {RECORD} is missing")
    return built(EditRecord, json_mapping(path), f"{path} is damaged: ")


def edit_id(eraser: str, basis: object) -> str:
    """A short id that is the same in every process and fits a folder name.

    >>> edit_id("my eraser", {"rank": 1})
    'my-eraser-c017912045'
    """
    stem = "".join(c if c.isalnum() else "-" for c in eraser)
    return f"{stem[-40:]}-{digest([eraser, basis])[:10]}"


def _join(places: Sequence[Place]) -> str:
    """Places in a label; consecutive layers of one site share its name.

    >>> _join([Place("resid_post", 2, 1), Place("resid_post", 3, 1), Place("mlp_out", 3, 1)])
    'resid_post.2+3+mlp_out.3'
    """
    sites = ["", *(place.site for place in places)]
    pairs = zip(sites, places, strict=False)
    return "+".join(str(p).removeprefix(f"{s}." if s == p.site else "") for s, p in pairs)


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
        **fields: Any,
    ) -> NamedEdit:
        """Name an edit that was fitted as one.

        The id is a digest of `basis`, all that the fit depends on, or else of the tensors; `fields`
        are of `EditRecord`. An edit with a `baseline_kind` is a baseline.
        """
        key = edit_id(eraser, edit.digest if basis is None else basis)
        fields["baseline"] = fields.get("baseline", False) or bool(fields.get("baseline_kind"))
        fields["after"] = tuple(fields.get("after", ()))
        return cls(EditRecord(key, eraser, as_json(params or {}), _places(edit), **fields), edit)

    @classmethod
    def combined(cls, parts: Sequence[NamedEdit]) -> NamedEdit:
        """Combine edits, which act in their order; `UserError` as `Edit.then`."""
        if len(parts) == 1:
            return parts[0]
        edit = reduce(Edit.then, (part.edit for part in parts))
        records = tuple(part.record for part in parts)
        # A control's parameters are its seeds, of which no two places have the same.
        kinds = {
            (r.eraser, r.sites, r.task, "" if r.baseline else digest(r.params)) for r in records
        }
        eraser = records[0].eraser if len(kinds) == 1 else COMBINED
        params = {**records[0].params} if len(kinds) == 1 else {}
        record = EditRecord(
            edit_id(eraser, [part.id for part in records]),
            eraser,
            params,
            _places(edit),
            parts=records,
            baseline=all(part.baseline for part in records),
            task="+".join(dict.fromkeys(part.task for part in records)),
        )
        return cls(record, edit)

    def save(self, directory: Path, made_for: str | None = None) -> None:
        """Write the edit as a folder, atomically; an existing folder is replaced."""
        with whole_folder(directory) as folder:
            save_edit(self.edit, folder, made_for=made_for)
            write_json(folder / RECORD, asdict(self.record))

    @classmethod
    def load(cls, directory: Path) -> NamedEdit:
        """Read a saved edit; `UserError` if it is missing or inconsistent."""
        record, edit = read_record(directory), load_edit(directory)
        if record.places != _places(edit):
            raise UserError(f"{directory} is damaged: {RECORD} has other places than the edit")
        return cls(record, edit)


def _places(edit: Edit) -> tuple[Place, ...]:
    updated = (Place(WEIGHTS, None, edit.update.rank),) if edit.update else ()
    return (*updated, *_mapped(edit))


def _mapped(edit: Edit) -> tuple[Place, ...]:
    return tuple(Place(p.site, p.layer, p.erasure.rank, p.limit) for p in edit.placements)


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
    maps = {
        f"{i}.{part}": array
        for i, place in enumerate(edit.placements)
        for part, array in tensors(place).items()
    }
    factors = {
        f"{_UPDATE}{name}.{part}": array
        for name, matrices in (edit.update.factors.items() if edit.update else ())
        for part, array in zip(FACTORS, matrices, strict=True)
    }
    # safetensors takes the memory of an array as it lies, transposed views included.
    return save({key: np.ascontiguousarray(array) for key, array in (maps | factors).items()})


def load_edit(directory: Path, model: LanguageModel | None = None) -> Edit:
    """Read a saved edit; `UserError` if it is damaged, or of another model."""
    for name in (_WORDS, TENSORS):
        if not (directory / name).is_file():
            raise UserError(f"{directory} holds no edit: {name} is missing")
    words = built(_Words, json_mapping(directory / _WORDS), f"{directory / _WORDS}: ")
    parts: dict[str, dict[str, np.ndarray]] = defaultdict(dict)
    try:
        for key, array in load_file(directory / TENSORS).items():
            name, _, part = key.rpartition(".")
            parts[name][part] = array
        placements = [
            Placement(place.site, place.layer, _map(parts[str(i)]), place.limit)
            for i, place in enumerate(words.placements)
        ]
        factors = {
            name.removeprefix(_UPDATE): (parts[name][FACTORS[0]], parts[name][FACTORS[1]])
            for name in sorted(parts)
            if name.startswith(_UPDATE)
        }
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
    update = LowRankUpdate(factors) if factors else None
    return Edit(tuple(placements), words.preface, words.request, update)


def _map(parts: Mapping[str, np.ndarray]) -> AffineErasure | Shift:
    if "vector" in parts:
        return Shift(parts["vector"])
    gate = None
    if "gate_weight" in parts:
        gate = Gate(parts["gate_weight"], parts["gate_bias"].item())
    return AffineErasure(parts["left"], parts["right"], parts["mean"], gate)
