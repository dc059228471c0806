"""What is said of probes follows from their figures and intervals, case by case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.edits import EditRecord
from countergen_edit.edits.record import Place
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.views.probes import GuardednessView
from tests.metrics.small import LEACE

SAYS = GuardednessView.says
PLACE = SAYS["place"]
BOTH = EditRecord("b", "leace", {}, (*LEACE.places, Place("resid_post", 4, 1)), (LEACE, LEACE))
RECORDS = {record.id: record for record in (LEACE, BOTH)}
BEFORE = (0.99, 0.97, 1.0), (0.98, 0.96, 1.0)
FOUND = (0.93, 0.88, 0.97)


def probed(linear, nonlinear, before=BEFORE):
    groups = {"dataset": "jobs_fit", "group_a": "female", "group_b": "male", "edit": "e"}
    rows = [Row("group_effect", 1.0, split="test", **groups)]
    groups["split"] = "validation"
    for metric, *shares in (("linear", before[0], linear), ("nonlinear", before[1], nonlinear)):
        for when, (value, lo, hi) in zip(("_before", ""), shares, strict=True):
            rows.append(Row(f"{metric}_probe_accuracy{when}", value, lo=lo, hi=hi, **groups))
    return [*rows, Row("probe_majority_rate", 0.5, **groups)]


def sentences(rows):
    return GuardednessView().sentences(Results(rows, RECORDS))


NEAR = (0.52, 0.48, 0.56)
NOTHING = (0.54, 0.45, 0.62), (0.5, 0.41, 0.59)


@pytest.mark.parametrize(
    ("linear", "nonlinear", "before", "case", "says"),
    [
        ((0.57, 0.52, 0.62), NEAR, BEFORE, "linear", "a linear probe finds the group signif"),
        (NEAR, (0.74, 0.66, 0.8), BEFORE, "non-linear", "group significantly (74 % ["),
        (NEAR, (0.49, 0.4, 0.58), BEFORE, "neither", "not find the group significantly (49 "),
        ((0.52, 0.502, 0.538), FOUND, BEFORE, "linear", "(52.0 % [50.2, 53.8], chance 50 %"),
        (NEAR, NEAR, NOTHING, "never", "not find the group significantly (54 % [45, 62]"),
    ],
)
def test_the_stronger_finding_gives_the_meaning(linear, nonlinear, before, case, says):
    """What probes did not find before the edit proves nothing."""
    [sentence] = sentences(probed(linear, nonlinear, before))
    assert says in sentence
    assert sentence.endswith(f"{SAYS[case]} {PLACE}")


@given(st.tuples(*[st.tuples(*[st.floats(0, 1)] * 3).map(sorted)] * 2))
def test_a_probe_finds_the_group_only_where_its_interval_lies_above_chance(ends):
    linear, nonlinear = ((value, lo, hi) for lo, value, hi in ends)
    [sentence] = sentences(probed(linear, nonlinear))
    for name, (_, lo, _) in ((" a linear", linear), (" a non-linear", nonlinear)):
        assert (f"{name} probe finds the group significantly" in sentence) == (lo > 0.5)
        assert (f"{name} probe does not find the group" in sentence) == (lo <= 0.5)


def test_an_edit_of_several_parts_was_not_probed_as_one():
    [sentence] = sentences([Row("group_effect", 1.0, edit="b", split="test", dataset="jobs_test")])
    assert sentence.startswith("No probe read what leace-2@resid_post.3+4 leaves as a whole")


def test_without_figures_nothing_is_said():
    rows = [row for row in probed(FOUND, FOUND) if row.metric != "nonlinear_probe_accuracy"]
    unknown = [Row(row.metric, None, split="validation", edit="e") for row in rows[1:]]
    assert sentences([]) == sentences(rows) == sentences([*rows[:1], *unknown]) == []
