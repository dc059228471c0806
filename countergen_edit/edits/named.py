"""Edits with an identity: what a run keeps of each, from the moment it is fitted.

Comes in: a fitted edit with the eraser and parameters that made it. Goes out: a folder with its
tensors and its words, and the edit again, bit for bit. A label is made for people and never read.
Refused: a folder that holds no such edit.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from countergen_edit.edits.edit import Edit
from countergen_edit.edits.files import load_edit, save_edit
from countergen_edit.errors import UserError
from countergen_edit.writing import cannot_write, digest

RECORD = "record.json"
COMBINED = "combination"
"""The eraser of an edit whose parts were made by several erasers or at several places."""


@dataclass(frozen=True)
class Place:
    """Where an erasure acts, and how many dimensions it takes."""

    site: str
    layer: int | None
    rank: int

    def __str__(self) -> str:
        return self.site if self.layer is None else f"{self.site}.{self.layer}"


@dataclass(frozen=True)
class EditRecord:
    """What is known of an edit besides its tensors."""

    id: str
    """Follows from all that the edit was asked to be, so that another process finds the same."""
    eraser: str
    """The eraser's name in the run; `COMBINED` for an edit of several parts."""
    params: Mapping[str, Any]
    """The eraser's parameters that are not its defaults."""
    places: tuple[Place, ...]
    parts: tuple[EditRecord, ...] = ()
    """What it is composed of; empty for an edit fitted as one."""
    baseline: bool = False
    task: str = ""
    """The task that it was fitted on."""

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
    def label(self) -> str:
        """What people read in tables.

        >>> EditRecord("1f", "rlace", {}, (Place("resid_post", 3, 1),)).label
        'rlace-1@resid_post.3'
        >>> parts = [EditRecord("a", "leace", {}, (Place("resid_post", i, 1),)) for i in (2, 3)]
        >>> EditRecord("1f", COMBINED, {}, parts[0].places + parts[1].places, (*parts,)).label
        'leace-1@resid_post.2 + .3'
        """
        if self.eraser != COMBINED:
            return f"{self.eraser}-{self.rank}@" + "+".join(_places(self.places))
        said: list[str] = []
        before = ""
        for part in self.parts:
            stem, _, layer = part.label.rpartition(".")
            said.append(f".{layer}" if stem and stem == before else part.label)
            before = stem
        return " + ".join(said)

    @property
    def called(self) -> str:
        """What a sentence calls it: its place is told only where it has several.

        >>> EditRecord("1f", "rlace", {}, (Place("resid_post", 3, 1),)).called
        'rlace (rank 1)'
        """
        return f"{self.label if len(self.places) > 1 else self.eraser} (rank {self.rank})"

    @property
    def columns(self) -> dict[str, Any]:
        """Its columns in a result row."""
        return {
            "edit": self.id,
            "eraser": self.eraser,
            "site": "+".join(self.sites),
            "layers": self.layers,
            "rank": self.rank,
            "baseline": self.baseline,
        }

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> EditRecord:
        """Read a record back."""
        places = tuple(Place(**place) for place in content["places"])
        parts = tuple(cls.from_dict(part) for part in content["parts"])
        return cls(**{**content, "places": places, "parts": parts})


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
        baseline: bool = False,
        task: str = "",
    ) -> NamedEdit:
        """Name an edit that was fitted as one.

        Args:
            edit: what was fitted.
            eraser: the eraser's name in the run.
            params: its parameters, those that are not defaults.
            basis: all that the fit depends on, from which the id is made; without it the id is made
                from the tensors.
            baseline: whether it is a control.
            task: the task that it was fitted on.
        """
        places = tuple(Place(p.site, p.layer, p.erasure.rank) for p in edit.placements)
        key = edit_id(eraser, basis) if basis is not None else edit_id(eraser, edit.digest)
        return cls(EditRecord(key, eraser, dict(params or {}), places, (), baseline, task), edit)

    @classmethod
    def combined(cls, parts: Sequence[NamedEdit]) -> NamedEdit:
        """Several edits as one; a single one is itself.

        Parts of one eraser at one site are one edit of that eraser, as if it had been asked for.
        """
        if len(parts) == 1:
            return parts[0]
        records = tuple(part.record for part in parts)
        first = records[0]
        places = tuple(place for record in records for place in record.places)
        made = {
            (part.record.eraser, digest(part.record.params), part.record.sites) for part in parts
        }
        eraser = first.eraser if len(made) == 1 else COMBINED
        record = EditRecord(
            id=edit_id(eraser, [part.id for part in parts]),
            eraser=eraser,
            params=first.params if len(kinds) == 1 else {},
            places=places,
            parts=records,
            baseline=all(record.baseline for record in records),
            task=first.task,
        )
        return cls(record, sum((part.edit for part in parts[1:]), parts[0].edit))

    def save(self, directory: Path, made_for: str | None = None) -> None:
        """Write the edit as a folder, whole or not at all.

        Raises:
            UserError: the disk is full, or the folder cannot be written.
        """
        partial = directory.with_name(f"{directory.name}.tmp")
        try:
            shutil.rmtree(partial, ignore_errors=True)
            save_edit(self.edit, partial, made_for=made_for)
            text = json.dumps(self.record.to_dict(), indent=2, ensure_ascii=False) + "\n"
            (partial / RECORD).write_text(text, "utf-8")
            shutil.rmtree(directory, ignore_errors=True)
            partial.replace(directory)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise cannot_write(directory, error) from error

    @classmethod
    def load(cls, directory: Path) -> NamedEdit:
        """Read an edit that `save` wrote.

        Raises:
            UserError: the folder holds none.
        """
        return cls(read_record(directory), load_edit(directory))


def read_record(directory: Path) -> EditRecord:
    """The record of a saved edit, without its tensors.

    Raises:
        UserError: the folder holds none.
    """
    path = directory / RECORD
    try:
        return EditRecord.from_dict(json.loads(path.read_text("utf-8")))
    except FileNotFoundError as error:
        raise UserError(f"{directory} holds no edit: {RECORD} is missing") from error
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def edit_id(eraser: str, basis: object) -> str:
    """An edit's id: short, the same in every process, and fit to name a folder.

    >>> edit_id("my eraser", {"rank": 1})
    'my-eraser-ffd7a9c5ff'
    """
    stem = "".join(c if c.isalnum() else "-" for c in eraser)
    return f"{stem}-{digest([eraser, basis])[:10]}"


def _places(places: Sequence[Place]) -> list[str]:
    """The places of an edit at one site: the site is told once."""
    first, *rest = places
    return [str(first), *(str(p) if p.site != first.site else str(p.layer) for p in rest)]
