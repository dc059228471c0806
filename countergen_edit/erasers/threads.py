"""How many threads small matrices are worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import Float
from numpy import ndarray
from threadpoolctl import threadpool_limits

SMALL = 2**21
"""Entries of a matrix of rows up to which one thread is faster than two."""


@contextmanager
def fitting_threads(rows: Float[ndarray, "row d"]) -> Iterator[None]:
    """One BLAS thread where the matrices are small.

    A fit of some hundred or thousand rows makes many products of microseconds each; threads that
    meet after every one of them make it slower, on a busy machine twenty times.
    """
    with threadpool_limits(1 if rows.size < SMALL else None, user_api="blas"):
        yield
