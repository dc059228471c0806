"""One line per stage of a command whose output is redirected, where nobody sees a progress bar.

A line begins with the minutes and seconds since the command started.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_BEGIN: ContextVar[float | None] = ContextVar("begin", default=None)
"""When the command started, by the monotonic clock; None where no stage is printed."""


@contextmanager
def printed() -> Iterator[None]:
    """Print stages while the block lasts, unless standard output is a terminal."""
    token = _BEGIN.set(None if sys.stdout.isatty() else time.monotonic())
    try:
        yield
    finally:
        _BEGIN.reset(token)


def stage(text: str) -> None:
    """Print that a stage begins, at once; nothing outside of `printed`."""
    if (begin := _BEGIN.get()) is not None:
        minutes, seconds = divmod(round(time.monotonic() - begin), 60)
        print(f"{minutes:3}:{seconds:02} {text}", flush=True)
