"""Atomic writes and locks, `NotWrittenError` where the disk is full; content as plain JSON."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import countergen_edit
from countergen_edit.core.errors import NotWrittenError, UserError

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = ".lock"
"""Lock file of a folder; it stays there."""
_PACKAGES = ("torch", "transformers", "transformer-lens", "numpy", "scipy", "scikit-learn", "cvxpy")
NEW, OLD = ".tmp", ".old.tmp"
"""Suffixes of an unfinished file or folder, and of the folder it replaces."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary path that replaces `path` on success and is deleted on failure."""
    temporary = path.with_name(f"{path.name}{NEW}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise _cannot_write(path, error) from error
        raise


def write_json(path: Path, content: object) -> None:
    """Write a content as indented JSON."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")


def write_json_lines(path: Path, lines: Iterable[object]) -> None:
    """Write each content as a line of JSON, whole or not at all."""
    with whole(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """`whole` for a folder."""
    temporary, old = path.with_name(f"{path.name}{NEW}"), path.with_name(f"{path.name}{OLD}")
    try:
        put_back(path, old)
        shutil.rmtree(temporary, ignore_errors=True)  # left by a killed process
        temporary.mkdir(parents=True)
        yield temporary
        if path.exists():
            path.rename(old)
        temporary.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):
            put_back(path, old)
        if isinstance(error, OSError):
            raise _cannot_write(path, error) from error
        raise


def put_back(path: Path, old: Path) -> None:
    """Restore `path` from `old` if it is missing, after a `whole_folder` that was killed."""
    if old.exists() and not path.exists():
        old.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def tidy(folder: Path) -> None:
    """Repair what killed `whole_folder`s left in a folder."""
    for old in sorted(folder.glob(f"*{OLD}")):
        put_back(old.with_name(old.name.removesuffix(OLD)), old)
    for temporary in sorted(folder.glob(f"*{NEW}")):
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; wait while another process does."""
    lock = hold(folder, folder / LOCK, wait=True)
    try:
        yield
    finally:
        lock.release()


def hold(folder: Path, file: Path, *, wait: bool) -> BaseFileLock:
    """Acquire the lock of a folder; it ends with the process and can be acquired repeatedly."""
    from filelock import FileLock, Timeout  # late: help and mistakes answer at once

    lock = FileLock(file.resolve(), thread_local=False, is_singleton=True)
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout as error:
        raise UserError(
            f"another process is writing to {folder}: wait until it has ended, and give the same "
            "command again"
        ) from error
    except OSError as error:
        raise _cannot_write(folder, error) from error
    return lock


def append(path: Path, text: str) -> None:
    """Append text to a file durably; on failure the file is truncated to its former length."""
    before = path.stat().st_size
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):  # otherwise truncated when the run is opened
            os.truncate(path, before)
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> NotWrittenError:
    reason = error.strerror or str(error)
    return NotWrittenError(f"cannot write {path}: {reason}; the same command continues once it can")


def as_json(content: object) -> Any:
    """Content after a round trip through JSON: tuples as lists, NumPy numbers as plain ones.

    >>> as_json({"layers": (1, 2), "groups": {"b", "a"}, "by": len})
    {'layers': [1, 2], 'groups': ['a', 'b'], 'by': 'builtins:len'}
    """
    return json.loads(json.dumps(content, default=_plain))


def digest(content: object) -> str:
    """SHA-256 of content that `as_json` accepts, the same in every process."""
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


def versions() -> dict[str, str]:
    """The versions of this package and of those that its figures and weights depend on."""
    by_name = {name: metadata.version(name) for name in _PACKAGES}
    return by_name | {"countergen-edit": countergen_edit.__version__}


def described(value: Any, without: Collection[str] = ()) -> Any:
    """A value as plain JSON; an object becomes its class and settings.

    >>> described({"ranks": (1, 2), "place": Path("runs")})
    {'ranks': [1, 2], 'place': 'runs'}
    """
    if value is None or isinstance(value, bool | int | float | str | Path):
        return str(value) if isinstance(value, Path) else value
    if isinstance(value, Mapping):
        return {str(key): described(entry) for key, entry in value.items() if key not in without}
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted((described(entry) for entry in value), key=repr)
    if hasattr(value, "tolist"):
        return digest(value.tolist())
    if inspect.isclass(value) or inspect.isroutine(value):
        return f"{value.__module__}:{value.__qualname__}"
    kind = type(value)
    attributes = getattr(value, "__dict__", {})
    settings = value.get_params(deep=False) if hasattr(value, "get_params") else attributes
    return {"class": f"{kind.__module__}:{kind.__qualname__}"} | described(settings, without)


def own_code(things: Iterable[Any]) -> dict[str, str]:
    """SHA-256 of the files outside this package in which the classes of objects are defined."""
    code = {}
    for kind in dict.fromkeys(map(type, things)):
        name = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if name and Path(__file__).parents[1] not in (file := Path(name).resolve()).parents:
            code[f"{file.name}:{kind.__qualname__}"] = hashlib.sha256(file.read_bytes()).hexdigest()
    return code


def spreadsheet_cell(text: str) -> str:
    """A text for a CSV cell, with an apostrophe before anything a spreadsheet would execute.

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
