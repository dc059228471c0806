"""Run a command of the package with a fault.

`below` is a folder; `kill_at` the number of the operation on files below it before which the
process is killed; `count` a file that gets the number of operations; `longest` the maximum number
of bytes of a file.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from countergen_edit.cli.main import main
from countergen_edit.runs import folder as run_folder
from countergen_edit.runs import ran

CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate")
"""Events of `sys.addaudithook` that change a folder; so does `open` for writing."""


class Operations:
    """Counts operations on files of a folder, and kills the process before one of them."""

    def __init__(self, below: str, kill_at: int | None) -> None:
        self.below, self.kill_at, self.count = below, kill_at, 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CHANGES and not (event == "open" and writes(arguments)):
            return
        path = arguments[0]
        if isinstance(path, int) or not str(Path(os.fsdecode(path)).absolute()).startswith(
            self.below
        ):
            return
        self.count += 1
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def writes(arguments: tuple[Any, ...]) -> bool:
    """Whether a file is opened to be changed."""
    flags = arguments[2] or 0
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def begin(words: list[str], fault: dict[str, Any], error: str) -> None:
    """Set the fault up and run the command; the process ends with its exit code."""
    # Who starts this in the background of a shell has interrupts ignored, which is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.chdir(fault["below"])
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(error, os.O_WRONLY | os.O_CREAT), 2)
    if (longest := fault.get("longest")) is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (longest, longest))
    ran.now = run_folder.now = lambda: datetime(2026, 11, 24, tzinfo=UTC)  # bytes are compared
    operations = Operations(fault["below"], fault.get("kill_at"))
    sys.addaudithook(operations)
    code = main(words)
    if "count" in fault:
        seen = operations.count
        Path(fault["count"]).write_text(str(seen), "utf-8")
    sys.exit(code)
