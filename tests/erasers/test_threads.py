"""Fits that run side by side are the fits that run one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event

import numpy as np
import pytest

from countergen_edit.erasers import INLP, LEACE, BaseEraser, PreservingEraser, side_by_side
from countergen_edit.erasers.threads import SMALL
from countergen_edit.errors import UserError


def test_fits_side_by_side_are_those_one_by_one() -> None:
    rng = np.random.default_rng(0)
    sets = [(rng.normal(size=(200, 12)) + shift, np.repeat([0, 1], 100)) for shift in range(3)]
    erasers: list[type[BaseEraser]] = [INLP, LEACE, PreservingEraser]
    calls = [partial(eraser().fit, X, y) for eraser in erasers for X, y in sets]
    alone = [call() for call in calls]
    together = [future.result() for future in side_by_side(calls, sets[0][0])]
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.erasure_.left, other.erasure_.left)
        assert np.array_equal(one.erasure_.right, other.erasure_.right)
        assert np.array_equal(one.erasure_.mean, other.erasure_.mean)


@pytest.mark.parametrize("entries", [1, SMALL])
def test_what_is_done_can_be_kept_while_the_rest_runs(entries: int) -> None:
    kept = Event()
    calls: list[Callable[[], bool]] = [lambda: True, lambda: kept.wait(10)]
    for future in side_by_side(calls, np.broadcast_to(0.0, (entries, 1))):
        assert future.result()  # the second ends once the first was kept
        kept.set()


@pytest.mark.parametrize("entries", [1, SMALL])
def test_what_one_call_raises_is_its_own(entries: int) -> None:
    def fails() -> int:
        raise UserError("no such rank")

    rows = np.broadcast_to(0.0, (entries, 1))
    first, second, third = side_by_side([lambda: 1, fails, lambda: 3], rows)
    assert (first.result(), third.result()) == (1, 3)
    with pytest.raises(UserError, match="no such rank"):
        second.result()
