"""An eraser is fitted with what it requests, and with nothing else that is on hand."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import (
    ERASERS,
    MeanDifference,
    PreservingEraser,
    SentenceDebias,
    make_eraser,
)
from countergen_edit.erasers.base import fit_metadata
from tests.erasers.conftest import concept

X, z = concept(n=80, d=6)
OFFERED = {
    "contexts": np.repeat(["at work", "at home"], 40),
    "keep": np.repeat([True, False], 40),
    "pairs": np.arange(80) // 8,
    "background": np.random.default_rng(1).normal(size=(20, 6)),
    "people": np.arange(80) // 2,
    "families": np.arange(80) % 3,
    "sample_weight": np.linspace(0.5, 1.5, 80),
    "objective": None,
}
PLAIN = ("self", "X", "y")


@pytest.mark.parametrize("name", [*ERASERS])
def test_every_eraser_requests_all_that_its_fit_takes(name: str) -> None:
    fit = ERASERS.get(name).fit
    assert set(fit_metadata(make_eraser(name), OFFERED)) == {*signature(fit).parameters} - {*PLAIN}


def test_what_is_offered_arrives_unchanged() -> None:
    metadata = fit_metadata(PreservingEraser(), OFFERED)
    assert set(metadata) == {"contexts", "keep", "background", "people", "families"}
    assert all(metadata[name] is OFFERED[name] for name in metadata)
    assert fit_metadata(PreservingEraser(), {"pairs": 1}) == {}
    assert fit_metadata(MeanDifference(), {"contexts": 1, "keep": 2}) == {}


class Own(MeanDifference):
    """A user's eraser, which says what it takes."""

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {"contexts": True, "keep": False}

    def fit(self, X: Any, y: Any, *, contexts: Any = None, keep: Any = None) -> Own:
        self.contexts_, self.keep_ = contexts, keep
        super().fit(X, y)
        return self


class Silent(MeanDifference):
    """A user's eraser, which does not."""

    def fit(self, X: Any, y: Any, *, contexts: Any = None) -> Silent:
        self.contexts_ = contexts
        super().fit(X, y)
        return self


def test_an_eraser_of_ones_own_gets_what_its_class_requests() -> None:
    offered = {name: OFFERED[name] for name in ("contexts", "keep", "pairs")}
    eraser = Own()
    eraser.fit(X, z, **fit_metadata(eraser, offered))
    assert eraser.contexts_ is OFFERED["contexts"]
    assert eraser.keep_ is None


def test_an_eraser_that_takes_something_and_does_not_say_so_is_refused() -> None:
    with pytest.raises(UserError, match=r"fit of Silent takes 'contexts' .*__metadata_request__"):
        fit_metadata(Silent(), OFFERED)
    assert fit_metadata(Silent(), {"pairs": OFFERED["pairs"]}) == {}


def test_its_user_may_request_decline_or_rename() -> None:
    offered = {name: OFFERED[name] for name in ("contexts", "keep", "pairs")}
    with config_context(enable_metadata_routing=True):
        asking = Silent().set_fit_request(contexts=True)
        declining = PreservingEraser().set_fit_request(keep=False)
        renaming = SentenceDebias().set_fit_request(pairs="contexts")
        assert fit_metadata(asking, offered) == {"contexts": offered["contexts"]}
    # What was requested stays so outside, and in a clone, which is what is fitted.
    for eraser in (asking, clone(asking)):
        assert fit_metadata(eraser, offered) == {"contexts": offered["contexts"]}
    assert set(fit_metadata(clone(declining), offered)) == {"contexts"}
    assert fit_metadata(clone(renaming), offered) == {"pairs": offered["contexts"]}
    assert clone(asking).fit(X, z, **fit_metadata(asking, offered)).contexts_ is OFFERED["contexts"]


def test_scikit_learns_pipeline_routes_the_same() -> None:
    from sklearn.pipeline import make_pipeline

    rows = {name: OFFERED[name] for name in ("contexts", "keep")}
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(PreservingEraser(shrinkage=0.1)).fit(X, z, **rows)
    direct = PreservingEraser(shrinkage=0.1).fit(X, z, **fit_metadata(PreservingEraser(), rows))
    np.testing.assert_array_equal(pipeline[-1].erasure_.right, direct.erasure_.right)
