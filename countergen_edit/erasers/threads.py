"""How many threads small matrices are worth, and what the others do meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch
from jaxtyping import Float
from numpy import ndarray
from threadpoolctl import threadpool_limits

T = TypeVar("T")
SMALL = 2**24
"""Entries of a matrix of rows up to which one thread a fit is best: at 10,000 rows of 576, two take
as long or longer than one."""


@contextmanager
def fitting_threads(rows: Float[ndarray, "row d"]) -> Iterator[None]:
    """One BLAS thread where the matrices are small.

    A fit of some hundred or thousand rows makes many products of microseconds each; threads that
    meet after every one of them make it slower, on a busy machine twenty times.
    """
    with threadpool_limits(1 if rows.size < SMALL else None, user_api="blas"):
        yield


def side_by_side(
    calls: Sequence[Callable[[], T]], rows: Float[ndarray, "row d"]
) -> Iterator[Future[T]]:
    """Run calls that fit rows of this size: as many at once as there are threads, if small.

    Futures come in the order of the calls, each when it is done, so that what is done can be kept
    while the rest runs. What a call raises is raised by its future's `result`.
    """
    workers = torch.get_num_threads() if rows.size < SMALL else 1
    with fitting_threads(rows):
        pool = ThreadPoolExecutor(max(1, min(workers, len(calls))))
        try:
            for future in [pool.submit(call) for call in calls]:
                wait([future])
                yield future
        finally:  # whoever interrupts waits for what runs, not for what is queued
            pool.shutdown(cancel_futures=True)
