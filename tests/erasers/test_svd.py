"""A fit does not end because LAPACK's fast driver gives up, as it does on a few good matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from countergen_edit.erasers import PreservingEraser
from countergen_edit.erasers.svd import thin_svd


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
