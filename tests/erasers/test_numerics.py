"""Fallback of the SVD, and fits in parallel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import INLP, LEACE, BaseEraser, PreservingEraser, run_parallel
from countergen_edit.erasers.numerics import SMALL, thin_svd


def gives_up(*args: Any, **kwargs: Any) -> None:
    raise np.linalg.LinAlgError("SVD did not converge")


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5)])
def test_the_slow_driver_gives_the_same_factors(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = np.random.default_rng(0).normal(size=shape)
    fast = thin_svd(matrix)
    monkeypatch.setattr(np.linalg, "svd", gives_up)
    left, size, right = thin_svd(matrix)
    assert [part.shape for part in (left, size, right)] == [part.shape for part in fast]
    np.testing.assert_allclose(size, fast[1], rtol=1e-12)
    np.testing.assert_allclose((left * size) @ right, matrix, atol=1e-12)


def test_a_preserving_fit_survives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    X, y, contexts = rng.normal(size=(80, 6)), np.tile([0, 1], 40), np.repeat(range(8), 10)
    X[y == 1] += 1.0
    fast = PreservingEraser().fit(X, y, contexts=contexts).erasure_
    monkeypatch.setattr(np.linalg, "svd", gives_up)
    slow = PreservingEraser().fit(X, y, contexts=contexts).erasure_
    np.testing.assert_allclose(slow(X), fast(X), atol=1e-10)


def test_rows_that_are_no_numbers_are_not_hidden() -> None:
    with pytest.raises(ValueError, match="NaN"):
        thin_svd(np.full((2, 2), np.nan))


def test_fits_side_by_side_are_those_one_by_one() -> None:
    rng = np.random.default_rng(0)
    sets = [(rng.normal(size=(200, 12)) + shift, np.repeat([0, 1], 100)) for shift in range(3)]
    erasers: list[type[BaseEraser]] = [INLP, LEACE, PreservingEraser]
    calls = [partial(eraser().fit, X, y) for eraser in erasers for X, y in sets]
    alone = [call() for call in calls]
    together = [future.result() for future in run_parallel(calls, sets[0][0])]
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.erasure_.left, other.erasure_.left)
        assert np.array_equal(one.erasure_.right, other.erasure_.right)
        assert np.array_equal(one.erasure_.mean, other.erasure_.mean)


@pytest.mark.parametrize("entries", [1, SMALL])
def test_a_finished_result_is_available_while_the_rest_runs(entries: int) -> None:
    kept = Event()
    calls: list[Callable[[], bool]] = [lambda: True, lambda: kept.wait(10)]
    for future in run_parallel(calls, np.broadcast_to(0.0, (entries, 1))):
        assert future.result()  # the second ends once the first was kept
        kept.set()


@pytest.mark.parametrize("entries", [1, SMALL])
def test_the_error_of_one_call_stays_with_it(entries: int) -> None:
    def fails() -> int:
        raise UserError("no such rank")

    rows = np.broadcast_to(0.0, (entries, 1))
    first, second, third = run_parallel([lambda: 1, fails, lambda: 3], rows)
    assert (first.result(), third.result()) == (1, 3)
    with pytest.raises(UserError, match="no such rank"):
        second.result()
