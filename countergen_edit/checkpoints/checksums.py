"""SHA-256 of every file of a checkpoint, in the format of `sha256sum --check`."""

from __future__ import annotations

import hashlib
from pathlib import Path

from countergen_edit.errors import UserError
from countergen_edit.reading import text_of

CHECKSUMS = "SHA256SUMS"


def sha256(path: Path) -> str:
    """Of one file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path) -> None:
    """Write the sums of all files that lie in the folder or below."""
    lines = [f"{sha256(folder / name)}  {name}\n" for name in _files(folder)]
    (folder / CHECKSUMS).write_text("".join(lines), "utf-8")


def verify_checksums(folder: Path) -> None:
    """Refuse a checkpoint that is not the one that was saved.

    Files beside it that were never part of it, a `.git` say, are left alone; but not ones that
    transformers would load.

    Raises:
        UserError: a file was changed, removed or added; the message names it.
    """
    if not (folder / CHECKSUMS).is_file():
        raise UserError(f"{folder} has no {CHECKSUMS}: it is no finished checkpoint")
    text = text_of(folder / CHECKSUMS)
    sums = {name: digest for digest, _, name in (s.partition("  ") for s in text.splitlines())}
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
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name != CHECKSUMS
    )
