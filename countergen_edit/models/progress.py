"""Progress bars on standard error, where it is a terminal."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

import psutil
from tqdm import tqdm

from countergen_edit.core.stages import stage

MINUTE, WARMING_UP = 60.0, 3.0
_T = TypeVar("_T")


def track(
    items: Sequence[_T], description: str | None, part: tuple[float, float] = (0.0, 1.0)
) -> Iterator[_T]:
    """Yield the items under a progress bar; without description, under none.

    Where nobody sees the bar, the time left and the memory in use are printed once a minute unless
    less is left. `part` is the share of all work done before the items, and after them.

    >>> list(track([1, 2, 3], None))
    [1, 2, 3]
    """
    begin = time.monotonic()
    announced = begin + WARMING_UP - MINUTE
    done, end = part
    share = (end - done) / max(len(items), 1)
    bar = tqdm(items, description, leave=False, disable=None if description else True)
    for number, item in enumerate(bar, start=1):
        yield item
        now = time.monotonic()
        done += share
        left = (now - begin) / (share * number) * (1 - done)
        if description and left > MINUTE and now - announced > MINUTE:
            announced = now
            used = psutil.Process().memory_info().rss / 2**30
            minutes = math.ceil(left / 60)
            stage(f"{description}: {done:.0%}, about {minutes} min left, {used:.1f} GiB in use")


def announce(text: str) -> None:
    """Print on standard error, above any bar."""
    tqdm.write(text, file=sys.stderr)
