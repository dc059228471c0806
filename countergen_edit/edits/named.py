"""Edits with an identity: what a run keeps of each, from the moment it is fitted.

Comes in: a fitted edit with the eraser and parameters that made it. Goes out: a folder with its
tensors and its record, and the edit again, bit for bit. Refused: a folder that holds no such edit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from countergen_edit.edits.edit import Edit
from countergen_edit.edits.files import load_edit, save_edit
from countergen_edit.edits.record import (
    RECORD,
    EditRecord,
    Place,
    combined_record,
    edit_id,
    read_record,
)
from countergen_edit.errors import UserError
from countergen_edit.writing import as_json, whole_folder


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
        beside: str = "",
        variant: str = "",
        after: Sequence[Place] = (),
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
            beside: the kind of other way that it is; it is then a baseline.
            variant: what tells it apart in labels.
            after: places of the edits under which it was fitted.
        """
        key = edit_id(eraser, basis) if basis is not None else edit_id(eraser, edit.digest)
        about = as_json(params or {}), _places(edit), (), baseline or bool(beside), task
        return cls(EditRecord(key, eraser, *about, beside, variant, tuple(after)), edit)

    @classmethod
    def combined(cls, parts: Sequence[NamedEdit]) -> NamedEdit:
        """Several edits as one; a single one is itself.

        Parts of one eraser at one site are one edit of that eraser, as if it were fitted as one.
        A combination that is itself a part stands for its own parts. Parts act in their order.

        Raises:
            UserError: two of them act at the same place, and the second was not fitted after the
                first.
        """
        if len(parts) == 1:
            return parts[0]
        record = combined_record([part.record for part in parts])
        return cls(record, reduce(Edit.then, (part.edit for part in parts)))

    def save(self, directory: Path, made_for: str | None = None) -> None:
        """Write the edit as a folder, which appears by one rename when it is whole.

        Args:
            directory: the folder; what it held is replaced.
            made_for: `LanguageModel.fingerprint` of the model whose activations it was fitted on.

        Raises:
            UserError: the disk is full, or the folder cannot be written.
        """
        with whole_folder(directory) as folder:
            save_edit(self.edit, folder, made_for=made_for)
            text = json.dumps(self.record.to_dict(), indent=2, ensure_ascii=False) + "\n"
            (folder / RECORD).write_text(text, "utf-8")

    @classmethod
    def load(cls, directory: Path) -> NamedEdit:
        """Read an edit that `save` wrote.

        Raises:
            UserError: the folder holds none, or its files do not belong together.
        """
        record, edit = read_record(directory), load_edit(directory)
        if record.places != _places(edit):
            raise UserError(f"{directory} is damaged: {RECORD} tells of other places than the edit")
        return cls(record, edit)


def _places(edit: Edit) -> tuple[Place, ...]:
    return tuple(Place(p.site, p.layer, p.erasure.rank, p.limit) for p in edit.placements)
