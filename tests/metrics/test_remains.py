"""A probe is said to find the group only where its figures show it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.edits import EditRecord
from countergen_edit.edits.record import Place
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.views.probes import GuardednessView

LEACE = EditRecord("e", "leace", {}, (Place("resid_post", 4, 1),))
Share = tuple[float, float, float]
"""A share with its interval."""


def probed(linear: Share, nonlinear: Share) -> list[Row]:
    """The rows of a certificate; chance is a half."""
    figures: dict[str, Share] = {
        "linear_probe_accuracy_before": (0.99, 0.97, 1.0),
        "linear_probe_accuracy": linear,
        "nonlinear_probe_accuracy_before": (0.98, 0.96, 1.0),
        "nonlinear_probe_accuracy": nonlinear,
    }
    groups: dict[str, Any] = {"dataset": "jobs_fit", "group_a": "female", "group_b": "male"}
    groups["edit"] = "e"
    rows = [Row("group_effect", 1.0, split="test", **groups)]
    for metric, (value, lo, hi) in figures.items():
        rows.append(Row(metric, value, lo=lo, hi=hi, split="validation", **groups))
    return [*rows, Row("probe_majority_rate", 0.5, split="validation", **groups)]


@given(st.tuples(*[st.tuples(*[st.floats(0, 1)] * 3).map(sorted)] * 2))
def test_a_probe_is_said_to_find_the_group_only_where_its_interval_lies_above_chance(
    ends: tuple[list[float], list[float]],
) -> None:
    linear, nonlinear = ((value, lo, hi) for lo, value, hi in ends)
    results = Results(probed(linear, nonlinear), {"e": LEACE})
    [sentence] = GuardednessView().sentences(results)
    for name, (_, lo, _) in ((" a linear", linear), (" a non-linear", nonlinear)):
        assert (f"{name} probe finds the group significantly" in sentence) == (lo > 0.5)
        assert (f"{name} probe does not find the group" in sentence) == (lo <= 0.5)
