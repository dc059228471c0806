"""Batches that the device has memory for: half as large each time that it has too little.

The number of halvings is found once for each model and method, and kept: sizes change the last bits
of a score, and a resumed run must end with the same bytes.
"""

from __future__ import annotations

import ctypes
import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psutil
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import announce

_T = TypeVar("_T")
MOST_REDUCTIONS = 8
"""To 64 tokens on an accelerator."""
_COUNTS: WeakKeyDictionary[Any, Counter[str]] = WeakKeyDictionary()
"""Of each model, the halvings by method."""
_KEEP: WeakKeyDictionary[Any, Callable[[dict[str, int]], None]] = WeakKeyDictionary()


def reduced(lm: LanguageModel, method: str, size: int) -> int:
    """A size after the halvings that a method needed so far; at least 1."""
    return max(1, size >> _COUNTS.get(lm.bridge, Counter())[method])


def within_memory(lm: LanguageModel, method: str, run: Callable[[], _T]) -> _T:
    """`run()`, anew with smaller sizes while memory is short, or a `UserError`."""
    while True:
        try:
            return run()
        except torch.OutOfMemoryError as error:
            counts = _COUNTS.setdefault(lm.bridge, Counter())
            if counts[method] == MOST_REDUCTIONS:
                raise UserError(
                    f"{lm.device} has too little memory for {lm.name}, even in the smallest "
                    "batches: use model.dtype=bfloat16, model.device_map=auto or a smaller model"
                ) from error
            counts[method] += 1
            if lm.bridge in _KEEP:
                _KEEP[lm.bridge]({**counts})


def announce_memory(what: str, size: float, advice: str = "limit=N takes N prompts") -> None:
    """Print the GiB that something takes, if more than half of the available."""
    free = psutil.virtual_memory().available / 2**30
    if size > free / 2:
        announce(f"{what} takes {size:.2g} of {free:.2g} GiB of memory ({advice})")


def return_memory() -> None:
    """Give freed memory back to the system where the C library keeps it, as glibc does.

    From then on arrays of 32 MiB and more are given back as soon as they are freed. Smaller ones
    are reused: mapping each anew took a fifth of a training's time.
    """
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(-3, 2**25)  # M_MMAP_THRESHOLD
        library.malloc_trim(0)


@contextmanager
def reductions_kept(
    lm: LanguageModel, earlier: Mapping[str, int], keep: Callable[[dict[str, int]], None]
) -> Iterator[None]:
    """Begin with the halvings of an earlier session; `keep` gets all of them where one is added.

    Those that the model needed before in this process count as added.
    """
    counts = _COUNTS.setdefault(lm.bridge, Counter())
    counts |= Counter(earlier)  # the larger of each
    _KEEP[lm.bridge] = keep
    try:
        if counts != earlier:
            keep({**counts})
        yield
    finally:
        del _KEEP[lm.bridge]
