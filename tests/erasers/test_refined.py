"""The refined eraser on objectives whose best map is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import TERMS, AffineErasure, Change, make_eraser
from countergen_edit.erasers.refined import WhitenedMap

D = 6
LABELS = np.repeat(["a", "b"], 40)


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    scale = np.array([5.0, 2.0, 1.0, 1.0, 0.5, 0.1])
    return rng.normal(size=(80, D)) * scale + np.outer(LABELS == "a", [1.0, 0, 2.0, 0, 0, 0])


@dataclass
class Wanted:
    """Losses: how far the map is from another, in the mean square over rows."""

    rows: np.ndarray
    erasure: AffineErasure
    holds_out: bool = True
    rises: float = 0.0
    """Rise of the held-out loss between evaluations."""
    looks: int = 0

    def _terms(self, change: Change) -> dict[str, Tensor]:
        rows = torch.tensor(self.rows, dtype=torch.float32)
        target = torch.tensor(self.erasure(self.rows), dtype=torch.float32)
        miss = ((change(rows) - target) ** 2).mean()
        return {**{name: torch.zeros(()) for name in TERMS}, "people": miss}

    def losses(self, change: Change, seed: int, step: int) -> Mapping[str, Tensor]:
        return self._terms(change)

    def held_out(self, change: Change) -> Mapping[str, float] | None:
        if not self.holds_out:
            return None
        self.looks += 1
        terms = {name: float(value) for name, value in self._terms(change).items()}
        return {**terms, "people": terms["people"] + self.rises * self.looks}


def rank_two() -> AffineErasure:
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(D, 2)), rng.normal(size=(2, D))
    return AffineErasure(left, right / 3, rng.normal(size=D))


def test_without_an_objective_it_is_the_closed_form(rows: np.ndarray) -> None:
    refined = make_eraser("refined", start="leace").fit(rows, LABELS)
    leace = make_eraser("leace").fit(rows, LABELS)
    np.testing.assert_array_equal(refined.transform(rows), leace.transform(rows))
    assert refined.curve_ == []


@pytest.mark.parametrize("holds_out", [True, False])
def test_it_finds_the_map_that_is_wanted(rows: np.ndarray, holds_out: bool) -> None:
    wanted = Wanted(rows, rank_two(), holds_out)
    eraser = make_eraser(
        "refined", start="leace", extra=2, steps=2000, learning_rate=0.05, people=3.0
    )
    eraser.fit(rows, LABELS, objective=wanted)
    before = ((eraser.start_(rows) - wanted.erasure(rows)) ** 2).mean()
    after = ((eraser.transform(rows) - wanted.erasure(rows)) ** 2).mean()
    assert after < 1e-4 * before
    if holds_out:
        assert min(look["loss"] for look in eraser.curve_) == pytest.approx(
            3.0 * after, rel=0.1, abs=1e-6
        )
    assert eraser.rank_ <= 3


def test_of_maps_that_only_get_worse_the_closed_form_is_taken(rows: np.ndarray) -> None:
    leace = make_eraser("leace").fit(rows, LABELS)
    wanted = Wanted(rows, rank_two(), rises=1e6)
    eraser = make_eraser("refined", start="leace", steps=500, check_every=5, patience=3)
    eraser.fit(rows, LABELS, objective=wanted)
    np.testing.assert_allclose(eraser.transform(rows), leace.transform(rows), atol=1e-5)
    assert [look["step"] for look in eraser.curve_] == [0, 5, 10, 15]


def test_a_rate_that_explodes_is_named(rows: np.ndarray) -> None:
    eraser = make_eraser("refined", start="leace", steps=300, learning_rate=1e30, patience=9)
    with pytest.raises(UserError, match="use a learning_rate below 1e\\+30"):
        eraser.fit(rows, LABELS, objective=Wanted(rows, rank_two()))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"steps": 0}, "refined.steps=0: Input should be greater than 0"),
        ({"extra": -1}, "refined.extra=-1: Input should be greater than or equal"),
        ({"learning_rate": 0.0}, "refined.learning_rate=0.0: Input should be greater than 0"),
        ({"keep": -2.0}, "refined.keep=-2.0: Input should be greater than or equal"),
        ({"bias": float("nan")}, "refined.bias=nan: Input should be a finite number"),
        ({"start": {"rank": 2}}, "names no eraser: give its kind"),
        ({"start": "leaec"}, "leace"),
    ],
)
def test_settings_that_are_none_are_refused(
    rows: np.ndarray, params: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        make_eraser("refined", **params).fit(rows, LABELS)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 5), st.integers(0, 10**6))
def test_the_trained_map_and_its_erasure_are_one(rank: int, extra: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(50, D)) @ rng.normal(size=(D, D)) + 3.0
    start = AffineErasure(
        rng.normal(size=(D, rank)), rng.normal(size=(rank, D)), rng.normal(size=D)
    )
    thin = WhitenedMap.of(start, rows, extra, seed)
    x = torch.tensor(rows, dtype=torch.float32)
    with torch.no_grad():
        np.testing.assert_allclose(thin(x).numpy(), start(rows), rtol=0, atol=2e-3)
        for parameter in thin.parameters:
            parameter += 0.3 * torch.tensor(rng.normal(size=parameter.shape), dtype=torch.float32)
        np.testing.assert_allclose(thin(x).numpy(), thin.erasure(rows), rtol=0, atol=5e-3)
