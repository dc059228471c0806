"""Room for large arrays: memory while it lasts, then files.

In: shapes. Out: NumPy arrays, in memory until the budget is spent and mapped from files after that.
Refused: a disk that is full, at once and in one line, instead of a crash at some later write.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from countergen_edit.errors import UserError


@dataclass
class Scratch:
    """Hands out arrays; their files go when it goes.

    Attributes:
        budget: Bytes of memory to hand out before files are used.
        directory: Where files go; the system's temporary directory if None.
    """

    budget: int = 2 * 2**30
    directory: Path | None = None
    used: int = field(default=0, init=False)
    _files: tempfile.TemporaryDirectory[str] | None = field(default=None, init=False, repr=False)
    _count: int = field(default=0, init=False, repr=False)

    def empty(self, shape: tuple[int, ...], dtype: type | np.dtype) -> np.ndarray:
        """An array to be filled.

        Raises:
            UserError: it belongs on disk, and the disk has no room for it.
        """
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if self.used + size <= self.budget or size == 0:
            self.used += size
            return np.empty(shape, dtype)
        try:
            path = self._next_file()
            with path.open("wb") as file:
                # Claimed now: a mapped file that finds the disk full later kills the process.
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(path, dtype, "r+", shape=shape)
        except OSError as error:
            few = size < 2**30
            amount = f"{size / 2**20:.1f} MiB" if few else f"{size / 2**30:.2f} GiB"
            raise UserError(
                f"no room for {amount} of activations in "
                f"{self.directory or tempfile.gettempdir()}: {error.strerror}; free some, or name "
                "another with scratch.directory"
            ) from error

    def _next_file(self) -> Path:
        if self._files is None:
            if self.directory is not None:
                self.directory.mkdir(parents=True, exist_ok=True)
            self._files = tempfile.TemporaryDirectory(
                prefix="countergen-edit-", dir=self.directory, ignore_cleanup_errors=True
            )
        self._count += 1
        return Path(self._files.name) / f"{self._count}.bin"
