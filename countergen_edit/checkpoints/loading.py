"""Load a checkpoint back into this package: to audit it, to edit it further, to talk to it.

In: a folder that `save_checkpoint` made. Out: a `LanguageModel`. No code from the folder is run:
a carried edit is attached to the stock model. Refused: a folder that was tampered with.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from countergen_edit.checkpoints.carrying import CODE, stock_file, write_stock_config
from countergen_edit.checkpoints.checksums import CHECKSUMS, sha256, verify_checksums
from countergen_edit.checkpoints.history import EDIT, edits_of, is_checkpoint
from countergen_edit.edits import Edit, EditRecord, NamedEdit, attach, load_edit
from countergen_edit.edits.files import TENSORS
from countergen_edit.errors import UserError
from countergen_edit.locating import RECORD
from countergen_edit.models import LanguageModel, in_template, load
from countergen_edit.reading import json_mapping
from countergen_edit.typed import require

_NEEDED: dict[str, Any] = {
    "form": Literal["folded", "carried"],
    "model": str,
    "model_fingerprint": str,
    "dtype": str,
}
"""What every checkpoint's record tells."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are what was saved."""

    folder: Path
    record: dict[str, Any]
    edit: Edit

    @property
    def carried(self) -> bool:
        """Whether the folder holds the unedited weights, and the edit beside them."""
        return bool(self.record["form"] == "carried")

    @property
    def named(self) -> NamedEdit:
        """The edit with its record; of a checkpoint without one, as much as it tells."""
        if "record" in self.record:
            return NamedEdit(EditRecord.from_dict(self.record["record"]), self.edit)
        told = next(iter(edits_of(self.record)), {})
        eraser, axis = str(told.get("eraser", "edit")), str(told.get("axis", ""))
        return NamedEdit.of(self.edit, eraser, told.get("parameters"), task=axis)


@dataclass(frozen=True)
class Base:
    """What a checkpoint's further edits are made on."""

    model: LanguageModel
    """Without the edits that the checkpoint carries, under the name of the model it was made of; of
    a folded one, as it is."""
    before: NamedEdit | None
    """The edits that it carries."""
    record: dict[str, Any]
    """What is known of its making."""


def open_checkpoint(directory: str | Path) -> Checkpoint:
    """Verify a checkpoint and read what is known of it.

    Raises:
        UserError: it is none, or was changed after it was saved.
    """
    folder = Path(directory).expanduser()
    if not is_checkpoint(folder):
        raise UserError(
            f"{folder} is no checkpoint of this package (no {RECORD} with {CHECKSUMS}): give a "
            "directory written by `countergen-edit edit … save=DIR`"
        )
    verify_checksums(folder)
    record = json_mapping(folder / RECORD)
    for key, hint in _NEEDED.items():
        require(hint, record.get(key), f"{folder / RECORD}: {key}")
    return Checkpoint(folder, record, load_edit(folder / EDIT))


def load_checkpoint(directory: str | Path, **where: Any) -> LanguageModel:
    """The edited model, its edit in place for good.

    Args:
        directory: the checkpoint.
        where: `device`, `dtype`, `device_map`, `bos`, `template`, `instruction` of
            `models.load`.

    Raises:
        UserError: all that `open_checkpoint` and `models.load` refuse.
    """
    checkpoint = open_checkpoint(directory)
    if not checkpoint.carried:
        return load(checkpoint.folder, **where)
    model = load_unedited(checkpoint, **where)
    # The handle must live as long as the model does. The config enters the fingerprint, which must
    # not be the unedited model's.
    model.bridge.carried = attach(model, checkpoint.edit)
    model.bridge.original_model.config.carried = sha256(checkpoint.folder / EDIT / TENSORS)
    return model


def load_base(directory: str | Path, **where: Any) -> Base:
    """A checkpoint as further edits are made on it: they are saved in one with those it carries.

    Args:
        directory: the checkpoint.
        where: `device`, `dtype`, `device_map`, `bos`, `template`, `instruction` of
            `models.load`.

    Raises:
        UserError: all that `open_checkpoint` and `models.load` refuse.
    """
    checkpoint = open_checkpoint(directory)
    if not checkpoint.carried:
        return Base(load(checkpoint.folder, **where), None, checkpoint.record)
    model = replace(load_unedited(checkpoint, **where), name=str(checkpoint.record["model"]))
    return Base(model, checkpoint.named, checkpoint.record)


def load_unedited(
    checkpoint: Checkpoint, *, template: str = "none", instruction: str | None = None, **where: Any
) -> LanguageModel:
    """The model that a carried checkpoint edits.

    Raises:
        UserError: the checkpoint is folded, so that its weights are edited ones.
    """
    if not checkpoint.carried:
        raise UserError(f"{checkpoint.folder} is folded: it does not hold the unedited weights")
    with tempfile.TemporaryDirectory() as place:
        for path in checkpoint.folder.resolve().iterdir():
            if path.is_file() and path.name not in (CODE, "config.json"):
                (Path(place) / stock_file(path.name)).symlink_to(path)
        write_stock_config(checkpoint.folder / "config.json", Path(place) / "config.json")
        model = load(place, **where)
    return in_template(replace(model, name=str(checkpoint.folder)), template, instruction)
