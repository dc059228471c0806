"""One line per stage of a command whose output is redirected, where nobody sees a progress bar."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PRINTED: ContextVar[bool] = ContextVar("printed", default=False)


@contextmanager
def printed() -> Iterator[None]:
    """Print stages while the block lasts, unless standard output is a terminal."""
    token = _PRINTED.set(not sys.stdout.isatty())
    try:
        yield
    finally:
        _PRINTED.reset(token)


def stage(text: str) -> None:
    """Print the begin of a stage at once; nothing outside of `printed`."""
    if _PRINTED.get():
        print(text, flush=True)
