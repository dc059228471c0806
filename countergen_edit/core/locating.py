"""Find a model's files: a directory, a GGUF file, the Hugging Face hub, or its local cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError, unknown

_PROBE_SECONDS = 5.0
_LOCAL = "a local directory works offline: model=/path/to/directory"
RECORD = "countergen_edit.json"
"""File of a checkpoint of this package that records how it was made."""
_GGUF = b"GGUF"


@dataclass(frozen=True)
class Location:
    """The arguments of `from_pretrained`: a directory or hub id, and options."""

    name: str
    local_files_only: bool
    revision: str | None = None
    gguf: Path | None = None

    def __str__(self) -> str:
        return str(self.gguf or self.name)

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `from_pretrained`."""
        where = {"local_files_only": self.local_files_only, "revision": self.revision}
        return where | ({"gguf_file": self.gguf.name} if self.gguf else {})


def locate(model: str | Path, revision: str | None = None) -> Location:
    """Find `model` with at most one request to the hub, with a short timeout.

    Without network, Hugging Face's loaders retry each of several files for up to a minute; this
    one request decides whether they may use the network at all.

    Raises:
        UserError: not found.
    """
    return located_here(model) or _locate_on_hub(str(model), revision)


def located_here(model: str | Path) -> Location | None:
    """The location of a directory or file; None for a hub id.

    Raises:
        UserError: the path holds no model.
    """
    if not str(model).strip():
        raise UserError(f"no model given: a hub id or {_LOCAL}")
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            files = _gguf_files(path)
            raise UserError(
                f"{path} holds no config.json: give "
                + (f"its file {files[0]}" if files else "a directory written by save_pretrained")
            )
        return Location(str(path), local_files_only=True)
    if path.is_file():
        return _locate_file(path)
    if path.suffix == ".gguf":
        raise unknown("GGUF file", path, _gguf_files(path.parent))
    if isinstance(model, Path) or _looks_like_path(model):
        raise UserError(f"no such model directory: {path}")
    return None


def _locate_file(path: Path) -> Location:
    with path.open("rb") as file:
        if file.read(len(_GGUF)) == _GGUF:
            return Location(str(path.parent), local_files_only=True, gguf=path)
    raise UserError(
        f"{path} is a file that does not begin with the letters GGUF, so no GGUF file: give one, "
        "or the directory that holds config.json"
    )


def _gguf_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.gguf"))


def _looks_like_path(model: str) -> bool:
    parts = model.split("/")
    return (
        model.startswith((".", "/", "~"))
        or model.endswith("/")
        or len(parts) > 2
        or (os.sep != "/" and os.sep in model)
        or (len(parts) == 2 and Path(parts[0]).is_dir())
    )


def _locate_on_hub(model: str, revision: str | None) -> Location:
    import huggingface_hub as hub
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        hub.get_hf_file_metadata(
            hub.hf_hub_url(model, "config.json", revision=revision), timeout=_PROBE_SECONDS
        )
    except HFValidationError:
        raise UserError(f"{model!r} is neither a directory nor a valid hub id; {_LOCAL}") from None
    except GatedRepoError:
        raise UserError(
            f"{model} is gated on the Hugging Face hub: accept its terms there and log in with "
            f"`hf auth login`; {_LOCAL}"
        ) from None
    except RevisionNotFoundError:
        raise UserError(f"{model} has no revision {revision!r} on the Hugging Face hub") from None
    except RepositoryNotFoundError:
        raise UserError(
            f"{model!r} is neither a directory here nor a model on the Hugging Face hub; {_LOCAL}"
        ) from None
    except EntryNotFoundError:
        raise UserError(f"{model} has no config.json on the Hugging Face hub") from None
    except Exception as error:  # each transport has its own type for "no answer"
        if isinstance(hub.try_to_load_from_cache(model, "config.json", revision=revision), str):
            return Location(model, local_files_only=True, revision=revision)
        raise UserError(
            f"{model!r} is no directory here, and the Hugging Face hub cannot be reached "
            f"({type(error).__name__}); {_LOCAL}"
        ) from None
    return Location(model, local_files_only=False, revision=revision)
