"""Files and folders that are written whole or not at all, and by one process at a time.

Comes in: the path of a file or folder. Goes out: another to write to, which takes its place at the
end. Refused: a disk that is full or may not be written to, in one line, and nothing half-written
stays on it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.errors import NotWrittenError, UserError

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = ".lock"
"""Empty file in a folder that one process at a time writes to; it stays there."""


NEW, OLD = ".tmp", ".old.tmp"
"""How the names end of a folder that is being made, and of the one that it is to replace."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it becomes `path` when all went well, and goes otherwise.

    Raises:
        UserError: the disk is full, or the folder cannot be written.
    """
    temporary = path.with_name(f"{path.name}{NEW}")
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
    temporary, old = path.with_name(f"{path.name}{NEW}"), path.with_name(f"{path.name}{OLD}")
    try:
        put_back(path, old)
        shutil.rmtree(temporary, ignore_errors=True)  # what a killed process left
        temporary.mkdir(parents=True)
        yield temporary
        take_place(temporary, path, old)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


def take_place(new: Path, path: Path, old: Path) -> None:
    """Rename `new` to `path`; what is there goes by way of `old`, so that no half of it is seen."""
    put_back(path, old)
    if path.exists():
        path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def put_back(path: Path, old: Path) -> None:
    """Make good what a process left that was killed within `take_place`: `path` has its name again.

    Only where it had taken the new folder's name as well is the old one of no more use.
    """
    if old.exists() and not path.exists():
        old.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def tidy(folder: Path) -> None:
    """Make good what a killed process left beside folders that `whole_folder` makes."""
    for old in sorted(folder.glob(f"*{OLD}")):
        put_back(old.with_name(old.name.removesuffix(OLD)), old)
    for temporary in sorted(folder.glob(f"*{NEW}")):
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Wait until no other process writes to a folder, and keep others waiting meanwhile.

    Raises:
        UserError: the folder cannot be written to.
    """
    lock = hold(folder, folder / LOCK, wait=True)
    try:
        yield
    finally:
        lock.release()


def hold(folder: Path, file: Path, *, wait: bool) -> BaseFileLock:
    """The lock of a folder, held by this process until it is released, or the process ends.

    The system lets go of it however the process ends. A process may hold it several times.

    Args:
        folder: what is written to.
        file: the lock's; its own folder must be there.
        wait: for another process that holds it, as long as that takes.

    Raises:
        UserError: another process holds it, and is not waited for; or it cannot be written to.
    """
    from filelock import FileLock, Timeout  # late: help and mistakes answer at once

    # Known by its whole path: of one name in two folders there are two.
    lock = FileLock(file.resolve(), thread_local=False, is_singleton=True)
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout as error:
        raise UserError(
            f"another process is writing to {folder}: wait until it has ended, and give the same "
            "command again"
        ) from error
    except OSError as error:
        raise cannot_write(folder, error) from error
    return lock


def append(path: Path, text: str) -> None:
    """Put text at the end of a file, durably; where that fails, it is as long as before.

    Raises:
        UserError: the disk is full, or the file cannot be written.
    """
    before = path.stat().st_size
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):  # what cannot be cut off now is cut off when the run is opened
            os.truncate(path, before)
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> NotWrittenError:
    """What to say of a file that could not be written."""
    reason = error.strerror or str(error)
    return NotWrittenError(f"cannot write {path}: {reason}; the same command continues once it can")


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
