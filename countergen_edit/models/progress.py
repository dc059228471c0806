"""One progress bar, on standard error, for work that takes over two seconds.

In: items and a description. Out: the same items, in order. No bar without a description or where
standard error is no terminal.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")
_PATIENCE = 2.0  # seconds


@functools.cache
def console() -> Console:
    """The console of all bars: those on one console stack, those on two overwrite each other."""
    from rich.console import Console

    return Console(stderr=True)


def track(items: Sequence[T], description: str | None) -> Iterator[T]:
    """Yield the items, showing how many are done once two seconds have passed.

    >>> list(track([1, 2, 3], None))
    [1, 2, 3]
    """
    if description is None or not sys.stderr.isatty():
        yield from items
        return
    from rich.progress import Progress

    begin = time.monotonic()
    bar = Progress(console=console(), transient=True)
    task = bar.add_task(description, total=len(items))
    try:
        for done, item in enumerate(items):
            if not bar.live.is_started and time.monotonic() - begin > _PATIENCE:
                bar.start()
            bar.update(task, completed=done)
            yield item
    finally:
        bar.stop()
