"""Files and folders that are written whole or not at all.

Comes in: the path of a file or folder. Goes out: another to write to, which takes its place at the
end. Refused: a disk that is full or may not be written to, in one line, and nothing half-written
stays on it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from countergen_edit.errors import UserError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it becomes `path` when all went well, and goes otherwise.

    Raises:
        UserError: the disk is full, or the folder cannot be written.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """`whole` for a folder: an empty one beside `path`, which takes its place as one rename.

    Raises:
        UserError: the disk is full, or the folder cannot be written.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # what a killed process left
        temporary.mkdir(parents=True)
        yield temporary
        take_place(temporary, path, path.with_name(f"{path.name}.old.tmp"))
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


def take_place(new: Path, path: Path, old: Path) -> None:
    """Rename `new` to `path`; what is there goes by way of `old`, so that no half of it is seen."""
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def cannot_write(path: Path, error: OSError) -> UserError:
    """What to say of a file that could not be written."""
    reason = error.strerror or str(error)
    return UserError(f"cannot write {path}: {reason}; the same command continues once it can")


def as_json(content: object) -> Any:
    """Content as it comes back from JSON: tuples as lists, NumPy's numbers as plain ones.

    >>> as_json({"layers": (1, 2), "groups": {"b", "a"}, "by": len})
    {'layers': [1, 2], 'groups': ['a', 'b'], 'by': 'builtins:len'}
    """
    return json.loads(json.dumps(content, default=_plain))


def digest(content: object) -> str:
    """SHA-256 of anything `as_json` can hold, the same in every process."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    # The text of a set or a function would differ from process to process.
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}:{value.__qualname__}"
    return str(value)


def spreadsheet_cell(text: str) -> str:
    """A text for a cell of a CSV file, with an apostrophe before what a spreadsheet would run.

    Texts of models and of other people's data come to stand in cells.

    >>> spreadsheet_cell("=cmd()"), spreadsheet_cell("-0.5"), spreadsheet_cell("- no")
    ("'=cmd()", '-0.5', "'- no")
    """
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return text
    try:
        float(text.rstrip(" %"))
    except ValueError:
        return f"'{text}"
    return text
