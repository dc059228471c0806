"""Files that are written whole or not at all.

Comes in: the path of a file. Goes out: another to write to, which takes the file's place at the
end. Refused: a disk that is full or may not be written to, in one line, and nothing half-written
stays on it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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


def cannot_write(path: Path, error: OSError) -> UserError:
    """What to say of a file that could not be written."""
    reason = error.strerror or str(error)
    return UserError(f"cannot write {path}: {reason}; the same command continues once it can")


def digest(content: object) -> str:
    """SHA-256 of anything JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
