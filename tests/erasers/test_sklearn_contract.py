"""scikit-learn's own checks, for every class on the shelf."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import check_estimator

from countergen_edit.erasers import ERASERS, make_eraser

# The checks use data of two features, of which INLP's rank of 8 would leave nothing. One check,
# that weights are repetitions, compares fits to seven digits: by default INLP's probes stop at
# three, and a game of RLACE below rank c - 1 is 3e-9 off, where rounding decides its way along the
# flat top. All other checks pass at any of these settings.
FOR_SMALL_DATA = {"inlp": {"rank": 1, "tol": 1e-9}, "rlace": {"rank": 1, "tol": 1e-3}}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(ERASERS))
def test_passes_check_estimator(name, no_shape_checks):
    results = check_estimator(make_eraser(name, **FOR_SMALL_DATA.get(name, {})), on_fail=None)
    assert {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"} == {}
