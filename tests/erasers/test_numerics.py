"""Fallback of the SVD, and fits in parallel."""

from functools import partial
from threading import Event

import numpy as np
import pytest

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import INLP, LEACE, PreservingEraser, run_parallel
from countergen_edit.erasers.numerics import SMALL


def gives_up(*args, **kwargs):
    raise np.linalg.LinAlgError("SVD did not converge")


def test_a_preserving_fit_survives_an_svd_that_does_not_converge(monkeypatch):
    rng = np.random.default_rng(1)
    X, y, contexts = rng.normal(size=(80, 6)), np.tile([0, 1], 40), np.repeat(range(8), 10)
    X[y == 1] += 1.0
    fast = PreservingEraser().fit(X, y, contexts=contexts).erasure_
    monkeypatch.setattr(np.linalg, "svd", gives_up)
    slow = PreservingEraser().fit(X, y, contexts=contexts).erasure_
    np.testing.assert_allclose(slow(X), fast(X), atol=1e-10)


def test_fits_side_by_side_are_those_one_by_one():
    rng = np.random.default_rng(0)
    sets = [(rng.normal(size=(200, 12)) + shift, np.repeat([0, 1], 100)) for shift in range(3)]
    erasers = [INLP, LEACE, PreservingEraser]
    calls = [partial(eraser().fit, X, y) for eraser in erasers for X, y in sets]
    alone = [call() for call in calls]
    together = [future.result() for future in run_parallel(calls, sets[0][0])]
    for one, other in zip(alone, together, strict=True):
        for part in ("left", "right", "mean"):
            assert np.array_equal(getattr(one.erasure_, part), getattr(other.erasure_, part))


@pytest.mark.parametrize("entries", [1, SMALL])
def test_a_finished_result_is_available_while_the_rest_runs(entries):
    received = Event()
    calls = [lambda: True, lambda: received.wait(10)]
    for future in run_parallel(calls, np.broadcast_to(0.0, (entries, 1))):
        assert future.result()  # the second ends once the first was received
        received.set()


@pytest.mark.parametrize("entries", [1, SMALL])
def test_the_error_of_one_call_stays_with_it(entries):
    def fails():
        raise UserError("no such rank")

    rows = np.broadcast_to(0.0, (entries, 1))
    first, second, third = run_parallel([lambda: 1, fails, lambda: 3], rows)
    assert (first.result(), third.result()) == (1, 3)
    with pytest.raises(UserError, match="no such rank"):
        second.result()
