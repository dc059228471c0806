"""Progress bars, on standard error.

In: items and a description. Out: the same items, in order, with a bar once they take over two
seconds; no bar without a description or where standard error is no terminal. Besides, the one bar
of a command's steps.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
        for count, item in enumerate(items):
            if not bar.live.is_started and time.monotonic() - begin > _PATIENCE:
                bar.start()
            bar.update(task, completed=count)
            yield item
    finally:
        bar.stop()


@contextmanager
def steps(total: int) -> Iterator[Callable[[str], AbstractContextManager[None]]]:
    """A bar of so many steps, each a block under what a person reads while it runs."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console()) as bar:
        task = bar.add_task("", total=total)

        @contextmanager
        def step(description: str) -> Iterator[None]:
            bar.update(task, description=description)
            yield
            bar.advance(task)

        yield step
