"""Progress bars, on standard error.

In: items and a description. Out: the same items, in order, with a bar once they take over two
seconds; no bar without a description or where standard error is no terminal. Besides, the one bar
of a command, which says about how long the rest takes.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

T = TypeVar("T")
_PATIENCE = 2.0  # seconds


@functools.cache
def console() -> Console:
    """The console of all bars: those on one console stack, those on two overwrite each other."""
    from rich.console import Console

    return Console(stderr=True)


def watched() -> bool:
    """Whether anybody sees a bar: whether standard error is a terminal."""
    return sys.stderr.isatty()


def track(items: Sequence[T], description: str | None) -> Iterator[T]:
    """Yield the items, showing how many are done once two seconds have passed.

    >>> list(track([1, 2, 3], None))
    [1, 2, 3]
    """
    if description is None or not watched():
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


def announce(text: str) -> None:
    """Say something on standard error, above any bar, however long it is."""
    console().print(text, soft_wrap=True, markup=False, highlight=False)


class Bar:
    """The one bar of a command: what runs now, the share that is done, about how long is left."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, left="")

    def show(self, description: str, spent: float, left: float) -> None:
        """What runs now, and seconds spent and left; what is left is unknown where it is 0."""
        minutes = f"about {left / 60:.0f} min left" if left >= 90 else f"about {left:.0f} s left"
        self._progress.update(
            self._task,
            description=description,
            total=(spent + left) or None,
            completed=spent,
            left=minutes if left else "",
        )


@contextmanager
def bar() -> Iterator[Bar]:
    """The bar of a command, while the block lasts."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    words = TextColumn("{task.description}"), TextColumn("{task.fields[left]}")
    columns = (words[0], BarColumn(), TimeElapsedColumn(), words[1])
    with Progress(*columns, console=console(), transient=True) as progress:
        yield Bar(progress)
