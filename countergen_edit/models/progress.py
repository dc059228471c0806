"""Progress bars on standard error, where it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tqdm import tqdm

T = TypeVar("T")


def track(items: Sequence[T], description: str | None) -> Iterator[T]:
    """Yield the items under a progress bar; without description, under none.

    >>> list(track([1, 2, 3], None))
    [1, 2, 3]
    """
    return iter(tqdm(items, description, leave=False, disable=None if description else True))


def announce(text: str) -> None:
    """Print on standard error, above any bar."""
    tqdm.write(text, file=sys.stderr)


class Bar:
    """The progress bar of a command: its stage and the units done."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._stage = ""

    def begin(self, stage: str, units: int | None) -> None:
        """Start a stage."""
        self._stage = stage
        self._progress.reset(units)
        self._progress.set_description_str(stage)

    def show(self, unit: str) -> None:
        """Name the running unit."""
        text = f"{self._stage}: {unit}" if self._stage not in ("", unit) else unit
        self._progress.set_description_str(text)

    def advance(self) -> None:
        """Count one unit."""
        self._progress.update()


@contextmanager
def bar() -> Iterator[Bar]:
    """The bar of a command, within the block."""
    with tqdm(leave=False, disable=None) as progress:
        yield Bar(progress)
