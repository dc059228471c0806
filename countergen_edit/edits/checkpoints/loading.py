"""Load checkpoints into this package: their checksums, records and models.

No code in the folder is run: a carried edit is attached to the stock model.
"""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import CHECKPOINT_RECORD
from countergen_edit.core.reading import json_mapping, text_of
from countergen_edit.core.typed import require
from countergen_edit.edits import Edit, EditRecord, NamedEdit, applied, load_edit
from countergen_edit.edits.checkpoints.forms import CODE, write_stock_config
from countergen_edit.edits.checkpoints.modeling_edited import VARIANT
from countergen_edit.edits.files import TENSORS
from countergen_edit.models import LanguageModel, in_template, load_model

CHECKSUMS = "SHA256SUMS"
EDIT = "edit"
"""Folder of a checkpoint with its edit."""
_ENTRIES: dict[str, Any] = {
    "form": Literal["folded", "carried"],
    **dict.fromkeys(("model", "model_fingerprint", "dtype"), str),
    "edits": list[dict[str, Any]] | None,
    "config": dict[str, Any] | None,
    "template": dict[str, str] | None,
}
"""Entries of a checkpoint's record."""


def sha256(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files in the folder, as `sha256sum --check` reads them."""
    lines = [f"{sha256(folder / name)}  {name}\n" for name in _files(folder)]
    (folder / CHECKSUMS).write_text("".join(lines), "utf-8")


def verify_checksums(folder: Path) -> None:
    """Raise a `UserError` if a file was changed or removed, or a loadable one added."""
    lines = (line.partition("  ") for line in text_of(folder / CHECKSUMS).splitlines())
    sums = {name: digest for digest, _, name in lines}
    for name, digest in sums.items():
        if not (folder / name).is_file():
            raise UserError(f"checkpoint {folder} is damaged: {name} is missing")
        if sha256(folder / name) != digest:
            raise UserError(
                f"checkpoint {folder} is damaged: {name} was changed after it was saved "
                f"({CHECKSUMS}); get a fresh copy"
            )
    for name in _files(folder):
        if name not in sums and Path(name).suffix in (".py", ".safetensors", ".bin"):
            raise UserError(f"checkpoint {folder} holds {name}, which was not saved with it")


def _files(folder: Path) -> list[str]:
    paths = (p for p in folder.rglob("*") if p.is_file() and p.name != CHECKSUMS)
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def is_checkpoint(directory: str | Path) -> bool:
    """Whether `save_checkpoint` made this directory."""
    return all(
        (Path(directory).expanduser() / name).is_file() for name in (CHECKPOINT_RECORD, CHECKSUMS)
    )


def source_of(name: str) -> str:
    """The name of the model that a checkpoint was made of; of another model its own."""
    while is_checkpoint(name):
        name = str(json_mapping(Path(name).expanduser() / CHECKPOINT_RECORD).get("model"))
    return name


def edits_in_record(record: EditRecord) -> list[dict[str, Any]]:
    """An edit by axis, as the record of a checkpoint lists it under `edits`."""
    return [
        {
            "axis": part.task,
            "edit": part.label,
            "id": part.id,
            "eraser": part.eraser,
            "parameters": dict(part.params),
            "places": [str(place) for place in part.places],
            "rank": part.rank,
        }
        for part in record.parts or (record,)
    ]


def folded_into(model: LanguageModel) -> list[dict[str, Any]]:
    """The edits in the weights of a model that was loaded from a folded checkpoint."""
    folder = Path(model.name).expanduser()
    if not is_checkpoint(folder) or hasattr(model.bridge, "carried"):
        return []
    about = json_mapping(folder / CHECKPOINT_RECORD)
    return list(about.get("edits") or ()) if about.get("form") == "folded" else []


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint."""

    folder: Path
    record: dict[str, Any]
    edit: Edit

    @property
    def carried(self) -> bool:
        """Whether the folder holds the unedited weights and the edit's tensors."""
        return bool(self.record["form"] == "carried")

    @property
    def named(self) -> NamedEdit:
        """The edit with its record, or a new record if it was saved without one."""
        if "record" not in self.record:
            return NamedEdit.of(self.edit, "edit")
        return NamedEdit(EditRecord.from_dict(self.record["record"]), self.edit)


@dataclass(frozen=True)
class Base:
    """A model for further edits, the edits it carries, and its checkpoint's record.

    The model of a carried checkpoint is the unedited one; a folded one is as it is.
    """

    model: LanguageModel
    before: NamedEdit | None
    record: dict[str, Any]


def open_checkpoint(directory: str | Path) -> Checkpoint:
    """Verify a checkpoint and read its record and edit; raises a `UserError` if it is damaged."""
    folder = Path(directory).expanduser()
    if not is_checkpoint(folder):
        raise UserError(
            f"{folder} is not a checkpoint of this package (no {CHECKPOINT_RECORD} with "
            f"{CHECKSUMS}): give a directory written by `countergen-edit edit … save=DIR`"
        )
    verify_checksums(folder)
    record = json_mapping(folder / CHECKPOINT_RECORD)
    for key, hint in _ENTRIES.items():
        require(hint, record.get(key), f"{folder / CHECKPOINT_RECORD}: {key}")
    return Checkpoint(folder, record, load_edit(folder / EDIT))


def load_checkpoint(directory: str | Path, **where: Any) -> LanguageModel:
    """Load the edited model.

    `where` holds `device`, `dtype`, `device_map`, `max_memory`, `adapter`, `bos`, `template` and
    `instruction` of `models.load`. Raises a `UserError` as `open_checkpoint` and `models.load` do.
    """
    checkpoint = open_checkpoint(directory)
    if not checkpoint.carried:
        return load_model(checkpoint.folder, **where)
    model = load_unedited(checkpoint, **where)
    # The handle must live as long as the model does. The config enters the fingerprint, which must
    # not be the unedited model's.
    model.bridge.carried = ExitStack()
    model.bridge.carried.enter_context(applied(model, checkpoint.edit))
    model.bridge.original_model.config.carried = sha256(checkpoint.folder / EDIT / TENSORS)
    return model


def load_base(directory: str | Path, **where: Any) -> Base:
    """Load a checkpoint for further edits; parameters and errors as in `load_checkpoint`."""
    checkpoint = open_checkpoint(directory)
    if not checkpoint.carried:
        return Base(load_model(checkpoint.folder, **where), None, checkpoint.record)
    model = replace(load_unedited(checkpoint, **where), name=str(checkpoint.record["model"]))
    model.bridge.original_model.config.name_or_path = model.name
    return Base(model, checkpoint.named, checkpoint.record)


def load_unedited(
    checkpoint: Checkpoint, *, template: str = "none", instruction: str | None = None, **where: Any
) -> LanguageModel:
    """Load the unedited model of a carried checkpoint; raises a `UserError` for a folded one."""
    if not checkpoint.carried:
        raise UserError(f"{checkpoint.folder} is folded: it does not hold the unedited weights")
    with tempfile.TemporaryDirectory() as place:
        for path in checkpoint.folder.resolve().iterdir():
            if path.is_file() and path.name not in (CODE, "config.json"):
                stock = path.name.replace(f".{VARIANT}.", ".")
                (Path(place) / stock).symlink_to(path)
        write_stock_config(checkpoint.folder / "config.json", Path(place) / "config.json")
        model = load_model(place, **where)
    return in_template(replace(model, name=str(checkpoint.folder)), template, instruction)
