"""Find a model's files: a directory, a GGUF file, the Hugging Face hub, or its local cache."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.reading import json_mapping

_LOCAL = "a local directory works offline: model=/path/to/directory"
RECIPE = "recipe.json"
"""File of a checkpoint with all that it was made of."""
TRUTH = "truth.yaml"
"""File of the planted truth in a model's directory."""
ADAPTER = "adapter_config.json"
"""File of an adapter of PEFT."""
_HUB_ID = re.compile(r"[^./~][^/]*(/[^/]+)?")
_PAGE = re.compile(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/?([^/?#]*(?:/[^/?#]+)?)")
_PLACE = re.compile(r"(?:~|\.{1,2})/.|/(?!/)[^/]+/.")
_WORD = re.compile(r"[^\s=,;:|<>()\[\]{}'\"`]+")


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
        where = {"local_files_only": self.local_files_only, "revision": self.revision}
        return where | ({"gguf_file": self.gguf.name} if self.gguf else {})


def location_of(model: str | Path, revision: str | None = None) -> Location:
    """Find `model` with at most one request to the hub; `UserError` if it does not exist.

    Without network, Hugging Face's loaders retry each of several files for up to a minute; this
    one request with a short timeout decides whether they use the network at all.
    """
    refuse_page(str(model))
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            if (path / ADAPTER).is_file():
                base = json_mapping(path / ADAPTER).get("base_model_name_or_path") or "BASE"
                words = shlex.join([f"model={base}", f"model.adapter={path}"])
                raise UserError(f"{path} is an adapter, not a model: load it on its base, {words}")
            file = min(path.glob("*.gguf"), default=None)
            remedy = f"its file {file}" if file else "a directory or GGUF file that does"
            raise UserError(f"{path} holds no config.json: give {remedy}")
        return Location(str(path), local_files_only=True)
    if path.is_file():
        return Location(str(path.parent), local_files_only=True, gguf=path)
    if path.suffix == ".gguf":
        raise unknown("GGUF file", path, sorted(path.parent.glob("*.gguf")))
    if (
        isinstance(model, Path)
        or not _HUB_ID.fullmatch(model)
        or ("/" in model and path.parent.is_dir())
    ):
        raise UserError(f"no such model directory: {path}")
    return _locate_on_hub(model, revision)


def refuse_page(address: str) -> None:
    """Raise a `UserError` for the address of a page about a model."""
    if page := _PAGE.match(address):
        name = page[1] or "OWNER/NAME"
        raise UserError(f"{address} is the page of a model, not a server: give its name, {name}")


def without_places(content: Any) -> Any:
    """A content with the names of files and folders instead of their paths.

    Paths are those from the root, home or `.`, and those that exist; a hub id is not a path.

    >>> without_places(["run_dir=/home/me/run 1", "eraser=[../own.py:Own]", "he/she", "org/name"])
    ['run_dir=run 1', 'eraser=[own.py:Own]', 'he/she', 'org/name']
    """
    if isinstance(content, Mapping):
        return {without_places(key): without_places(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [*map(without_places, content)]
    if not isinstance(content, str) or "/" not in content:
        return content
    [(key, value)] = re.findall(r"\A([\w.+]+=)?(.*)\Z", content, re.DOTALL)
    if _is_place(value):
        return f"{key}{Path(value).name}"
    return _WORD.sub(lambda m: Path(m[0]).name if _is_place(m[0]) else m[0], content)


def _is_place(text: str) -> bool:
    try:
        return "/" in text and bool(_PLACE.match(text) or Path(text).exists())
    except (OSError, ValueError):  # too long for a path
        return False


def _locate_on_hub(model: str, revision: str | None) -> Location:
    import huggingface_hub as hub
    from huggingface_hub import errors

    reasons: dict[type[Exception], str] = {
        errors.HFValidationError: "is neither a directory nor a valid hub id",
        errors.GatedRepoError: "is gated on the Hugging Face hub: accept its terms there and log "
        "in with `hf auth login`",
        errors.RevisionNotFoundError: f"has no revision {revision!r} on the Hugging Face hub",
        errors.RepositoryNotFoundError: "is neither a directory here nor a model on the Hugging "
        "Face hub",
        errors.EntryNotFoundError: "has no config.json on the Hugging Face hub",
    }
    try:
        url = hub.hf_hub_url(model, "config.json", revision=revision)
        hub.get_hf_file_metadata(url, timeout=5)
    except Exception as error:  # each transport has its own type for "no answer"
        reason = next((r for kind, r in reasons.items() if isinstance(error, kind)), None)
        if reason is None:
            if isinstance(hub.try_to_load_from_cache(model, "config.json", revision=revision), str):
                return Location(model, local_files_only=True, revision=revision)
            name = type(error).__name__
            reason = f"is not a directory here, and the Hugging Face hub cannot be reached ({name})"
        raise UserError(f"{model!r} {reason}; {_LOCAL}") from None
    return Location(model, local_files_only=False, revision=revision)
