"""Load checkpoints into this package: their checksums, records and models.

No code in the folder is run: a carried edit is attached to the stock model.
"""

from __future__ import annotations

import tempfile
import weakref
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from countergen_edit.core.errors import UserError
from countergen_edit.core.locating import RECIPE
from countergen_edit.core.reading import json_mapping, text_of
from countergen_edit.core.typed import require
from countergen_edit.edits import Edit, EditRecord, applied, load_edit
from countergen_edit.edits.checkpoints.forms import CODE, write_stock_config
from countergen_edit.edits.checkpoints.modeling_edited import VARIANT
from countergen_edit.edits.record import TENSORS
from countergen_edit.models import LanguageModel, in_template, load_model
from countergen_edit.models.loading import sha256

CHECKSUMS = "SHA256SUMS"
EDIT = "edit"
"""Folder of a checkpoint with its edit."""
_ENTRIES: dict[str, Any] = {
    "form": Literal["folded", "adapter", "carried"],
    **dict.fromkeys(("model", "model_hash", "dtype"), str),
    "edits": list[dict[str, Any]] | None,
    **dict.fromkeys(("config", "record"), dict[str, Any] | None),
    "template": dict[str, str] | None,
}
"""Entries of a recipe."""


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files, as `sha256sum --check` reads them."""
    lines = [f"{sha256(folder / name)}  {name}\n" for name in _files(folder)]
    (folder / CHECKSUMS).write_text("".join(lines), "utf-8")


def differing(folder: Path, other: Path) -> tuple[str, ...]:
    """The files of a folder that another checkpoint lacks, or has changed."""
    sums = checksums(other)
    return tuple(name for name in _files(folder) if sums.get(name) != sha256(folder / name))


def checksums(folder: Path) -> dict[str, str]:
    """The checksums on record by file."""
    lines = (line.partition("  ") for line in text_of(folder / CHECKSUMS).splitlines())
    return {name: digest for digest, _, name in lines}


def verify_checksums(folder: Path, *, recipe_alone: bool = False) -> None:
    """Raise a `UserError` if a file was changed or removed, or a loadable one added.

    Of a recipe alone, only the files that it needs must be there.
    """
    sums = checksums(folder)
    for name, digest in sums.items():
        if not (folder / name).is_file():
            if recipe_alone and name != RECIPE and not name.startswith(f"{EDIT}/"):
                continue
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
    return all((Path(directory).expanduser() / name).is_file() for name in (RECIPE, CHECKSUMS))


def source_of(name: str) -> str:
    """The model that a checkpoint was made of; of another model its own name."""
    seen = set[str]()  # a checkpoint may have the name of its source
    while name not in seen and is_checkpoint(name):
        seen.add(name)
        name = str(json_mapping(Path(name).expanduser() / RECIPE).get("model"))
    return name


def edits_in_record(record: EditRecord) -> list[dict[str, Any]]:
    """An edit by axis, as a recipe lists it under `edits`."""
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
    """The edits in the weights of a model from a folded checkpoint."""
    folder = Path(model.name).expanduser()
    if not is_checkpoint(folder) or hasattr(model.bridge, "carried"):
        return []
    recipe = json_mapping(folder / RECIPE)
    return list(recipe.get("edits") or ()) if recipe.get("form") == "folded" else []


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint."""

    folder: Path
    record: dict[str, Any]
    """Its recipe."""
    edit: Edit

    @property
    def is_folded(self) -> bool:
        """Whether its weights are the edited model's, rather than unedited ones."""
        return bool(self.record["form"] == "folded")


def open_checkpoint(directory: str | Path, *, recipe_alone: bool = False) -> Checkpoint:
    """Verify and read a checkpoint; `UserError` if it is damaged."""
    folder = Path(directory).expanduser()
    if not is_checkpoint(folder):
        raise UserError(
            f"{folder} is not a checkpoint of this package (no {RECIPE} with {CHECKSUMS}): give a "
            "directory written by `countergen-edit edit … save=DIR`"
        )
    verify_checksums(folder, recipe_alone=recipe_alone)
    record = json_mapping(folder / RECIPE)
    for key, hint in _ENTRIES.items():
        require(hint, record.get(key), f"{folder / RECIPE}: {key}")
    return Checkpoint(folder, record, load_edit(folder / EDIT))


def load_checkpoint(
    directory: str | Path, *, base: str | Path | None = None, **where: Any
) -> LanguageModel:
    """Load the edited model.

    `base` is the place of the unedited model, if the checkpoint is an adapter; None: the recorded
    name. `where` holds settings of `load_model`. `UserError` as `open_checkpoint` and `load_model`.
    """
    checkpoint = open_checkpoint(directory)
    if checkpoint.is_folded:
        return load_model(checkpoint.folder, **where)
    model = load_unedited(checkpoint, base=base, **where)
    # The handle must live as long as the model does. The config enters the fingerprint, which must
    # not be the unedited model's.
    model.bridge.carried = ExitStack()
    model.bridge.carried.enter_context(applied(model, checkpoint.edit))
    model.bridge.original_model.config.carried = sha256(checkpoint.folder / EDIT / TENSORS)
    return model


def load_unedited(
    checkpoint: Checkpoint,
    *,
    base: str | Path | None = None,
    template: str = "none",
    instruction: str | None = None,
    **where: Any,
) -> LanguageModel:
    """Load the unedited model of a carried checkpoint, or of an adapter, which is at `base`.

    `UserError` if an adapter's model is not there.
    """
    if checkpoint.record["form"] == "adapter":
        try:
            model = load_model(base or checkpoint.record["model"], **where)
        except UserError as error:
            settings = f"model=NAME model.adapter={checkpoint.folder}"
            raise UserError(f"{error}; or say where the adapter's model is: {settings}") from error
        is_same = str(model.dtype) == f"torch.{checkpoint.record['dtype']}"
        if is_same and where.get("adapter") is None:
            load_edit(checkpoint.folder / EDIT, model)  # refuses another model
    else:
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for path in checkpoint.folder.resolve().iterdir():
                if path.is_file() and path.name not in (CODE, "config.json"):
                    (place / path.name.replace(f".{VARIANT}.", ".")).symlink_to(path)
            write_stock_config(checkpoint.folder / "config.json", place / "config.json")
            model = load_model(place, **where)
            # The source of further checkpoints, for as long as the model is there.
            weakref.finalize(model.bridge, stack.pop_all().close)
    return in_template(replace(model, name=str(checkpoint.folder)), template, instruction)
