"""Number of threads for the small matrices of a fit."""

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
"""Number of matrix entries up to which one BLAS thread per fit is fastest."""


@contextmanager
def fitting_threads(rows: Float[ndarray, "row d"]) -> Iterator[None]:
    """Limit BLAS to one thread if the matrix is small: thousands of short products gain nothing."""
    with threadpool_limits(1 if rows.size < SMALL else None, user_api="blas"):
        yield


def run_parallel(
    calls: Sequence[Callable[[], T]], rows: Float[ndarray, "row d"]
) -> Iterator[Future[T]]:
    """Run fits on rows of this size in a thread pool; one by one if the matrix is large.

    Futures come in the order of `calls`, each when done; `result()` raises what the call raised.
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
