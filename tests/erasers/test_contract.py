"""The scikit-learn contract of erasers: estimator checks, and metadata of `fit`."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from countergen_edit.erasers import ERASERS, AffineErasure, MeanDifference, fit_eraser, make_eraser
from countergen_edit.erasers.base import fit_metadata
from tests.erasers.conftest import refusal

X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.repeat(["a", "b"], 10)


class Broken(MeanDifference):
    """Ends its fit in a way of its own."""

    def __init__(self, how=""):
        self.how = how

    def fit(self, X, y):
        if self.how == "stores another width":
            self._store(AffineErasure(np.eye(2)[:, :1], np.eye(2)[:1], np.zeros(2)), np.unique(y))
        elif self.how == "returns nothing":
            return None
        return self


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("stores nothing", "Broken.fit stored no map of width 3, as X has: call self._store"),
        ("returns nothing", "Broken.fit returned None: end it with `return self`"),
        ("stores another width", "stored no map of width 3, as X has"),
    ],
)
def test_an_eraser_that_breaks_the_contract_is_refused(how, message):
    assert message in refusal(fit_eraser, Broken(how), X, Y)


# The checks use data of two features, of which INLP's rank of 8 would leave nothing.
FOR_SMALL_DATA = {"inlp": {"rank": 1}}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(name for name in ERASERS if name != "distilled"))
def test_passes_check_estimator(name, no_shape_checks):
    results = check_estimator(make_eraser(name, **FOR_SMALL_DATA.get(name, {})), on_fail=None)
    assert {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"} == {}


class Custom(MeanDifference):
    def fit(self, X, y, *, contexts=None):
        return super().fit(X, y)


def test_a_custom_eraser_gets_the_metadata_that_its_fit_names():
    metadata = {"contexts": [1, 2], "pairs": [3, 4]}
    assert fit_metadata(Custom(), metadata) == {"contexts": [1, 2]}
