"""Progress bars on standard error, where it is a terminal."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

T = TypeVar("T")


@functools.cache
def console() -> Console:
    """The console of all bars, which stack on one and overwrite each other on two."""
    from rich.console import Console

    return Console(stderr=True)


def track(items: Sequence[T], description: str | None) -> Iterator[T]:
    """Yield the items under a progress bar; without description, under none.

    >>> list(track([1, 2, 3], None))
    [1, 2, 3]
    """
    if description is None or not sys.stderr.isatty():
        yield from items
        return
    from rich import progress

    yield from progress.track(items, description, console=console(), transient=True)


def announce(text: str) -> None:
    """Print on standard error, above any bar."""
    console().print(text, soft_wrap=True, markup=False, highlight=False)


class Bar:
    """The progress bar of a command: its stage and the units done."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self._stage = ""

    def begin(self, stage: str, units: int | None) -> None:
        """Start a stage."""
        self._stage = stage
        self._progress.reset(self._task, total=units, description=stage)

    def show(self, unit: str) -> None:
        """Name the running unit."""
        text = f"{self._stage}: {unit}" if self._stage not in ("", unit) else unit
        self._progress.update(self._task, description=text)

    def advance(self) -> None:
        """Count one unit."""
        self._progress.advance(self._task)


@contextmanager
def bar() -> Iterator[Bar]:
    """The bar of a command, within the block."""
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console(), transient=True) as bars:
        yield Bar(bars)
