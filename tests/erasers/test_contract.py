"""The scikit-learn contract of erasers: estimator checks, clones, and routing of metadata."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from countergen_edit.core.errors import UserError
from countergen_edit.erasers import (
    ERASERS,
    AffineErasure,
    MeanDifference,
    PreservingEraser,
    SentenceDebias,
    fit_eraser,
    make_eraser,
)
from countergen_edit.erasers.base import fit_metadata
from tests.erasers.conftest import concept

X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.repeat(["a", "b"], 10)


class Broken(MeanDifference):
    """Ends its fit in a way of its own."""

    def __init__(self, how: str = "") -> None:
        self.how = how

    def fit(self, X: Any, y: Any) -> Any:
        if self.how == "stores another width":
            self._store(AffineErasure(np.eye(2)[:, :1], np.eye(2)[:1], np.zeros(2)), np.unique(y))
        elif self.how == "returns nothing":
            return None
        return self


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("stores nothing", "Broken.fit stored no map: call self._store"),
        ("returns nothing", "Broken.fit returned None: end it with `return self`"),
        ("stores another width", "stored a map of width 2, not 3 like X"),
    ],
)
def test_an_eraser_that_breaks_the_contract_is_refused(how: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        fit_eraser(Broken(how), X, Y)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


# The checks use data of two features, of which INLP's rank of 8 would leave nothing.
FOR_SMALL_DATA = {"inlp": {"rank": 1}}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(name for name in ERASERS if name != "distilled"))
def test_passes_check_estimator(name, no_shape_checks):
    results = check_estimator(make_eraser(name, **FOR_SMALL_DATA.get(name, {})), on_fail=None)
    assert {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"} == {}


# Routing

ROWS, z = concept(n=80, d=6)
OFFERED = {
    "contexts": np.repeat(["at work", "at home"], 40),
    "keep": np.repeat([True, False], 40),
    "pairs": np.arange(80) // 8,
    "background": np.random.default_rng(1).normal(size=(20, 6)),
    "people": np.arange(80) // 2,
    "families": np.arange(80) % 3,
}


@pytest.mark.parametrize("name", [*ERASERS])
def test_every_eraser_requests_all_that_its_fit_takes(name: str) -> None:
    fits = [kind.fit for kind in ERASERS.get(name).__mro__ if "fit" in vars(kind)][:-1]
    taken = {
        p.name
        for fit in fits
        for p in signature(fit).parameters.values()
        if p.kind == p.KEYWORD_ONLY
    }
    metadata = fit_metadata(make_eraser(name), OFFERED)
    assert set(metadata) == taken
    assert all(metadata[key] is OFFERED[key] for key in metadata)


class Own(MeanDifference):
    """Requests and declines metadata."""

    __metadata_request__fit: ClassVar[Mapping[str, bool]] = {"contexts": True, "keep": False}

    def fit(self, X: Any, y: Any, *, contexts: Any = None, keep: Any = None) -> Own:
        self.contexts_, self.keep_ = contexts, keep
        super().fit(X, y)
        return self


class Silent(MeanDifference):
    """Requests nothing, although it takes `contexts`."""

    def fit(self, X: Any, y: Any, *, contexts: Any = None) -> Silent:
        self.contexts_ = contexts
        super().fit(X, y)
        return self


def test_a_custom_eraser_gets_the_metadata_that_its_class_requests() -> None:
    eraser = Own()
    offered = {name: OFFERED[name] for name in ("contexts", "keep", "pairs")}
    eraser.fit(ROWS, z, **fit_metadata(eraser, offered))
    assert eraser.contexts_ is OFFERED["contexts"]
    assert eraser.keep_ is None
    with pytest.raises(UserError, match=r"fit of Silent takes 'contexts' .*__metadata_request__"):
        fit_metadata(Silent(), OFFERED)
    assert fit_metadata(Silent(), {"pairs": OFFERED["pairs"]}) == {}


def test_a_user_may_request_decline_or_rename_metadata() -> None:
    offered = {name: OFFERED[name] for name in ("contexts", "keep", "pairs")}
    with config_context(enable_metadata_routing=True):
        requesting = Silent().set_fit_request(contexts=True)
        declining = PreservingEraser().set_fit_request(keep=False)
        renaming = SentenceDebias().set_fit_request(pairs="contexts")
    # Requests stay outside of the block, and in a clone, which is fitted.
    for eraser in (requesting, clone(requesting)):
        assert fit_metadata(eraser, offered) == {"contexts": offered["contexts"]}
    assert set(fit_metadata(clone(declining), offered)) == {"contexts"}
    assert fit_metadata(clone(renaming), offered) == {"pairs": offered["contexts"]}
