"""What is said of probes follows from their figures and intervals, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from countergen_edit.edits import EditRecord
from countergen_edit.edits.record import Place
from countergen_edit.metrics.base import METRICS
from countergen_edit.metrics.guardedness import Guardedness
from countergen_edit.metrics.remains import PLACE
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row

LEACE = EditRecord("e", "leace", {}, (Place("resid_post", 4, 1),))
RLACE = EditRecord("o", "rlace", {}, (Place("mlp_out", 2, 1),))
CONTROL = EditRecord("c", "random", {}, (Place("resid_post", 4, 1),), baseline=True)
BOTH = EditRecord("b", "leace", {}, (*LEACE.places, Place("resid_post", 5, 1)), (LEACE, LEACE))
RECORDS = {record.id: record for record in (LEACE, RLACE, CONTROL, BOTH)}
Share = float | tuple[float, float]
"""A share, with the lower end of its interval where it has one."""


def probed(
    linear: Share, nonlinear: Share, before: tuple[Share, Share] = (0.99, 0.98), edit: str = "e"
) -> list[Row]:
    """The rows of a certificate; chance is a half."""
    figures: dict[str, Share] = {
        "linear_probe_accuracy_before": before[0],
        "linear_probe_accuracy": linear,
        "nonlinear_probe_accuracy_before": before[1],
        "nonlinear_probe_accuracy": nonlinear,
        "probe_majority_rate": 0.5,
    }
    groups = {"dataset": "jobs_fit", "group_a": "female", "group_b": "male", "edit": edit}
    rows = [Row("group_effect", 1.0, split="test", **groups)]  # type: ignore[arg-type]
    for metric, share in figures.items():
        value, lo = share if isinstance(share, tuple) else (share, None)
        rows.append(Row(metric, value, lo=lo, split="validation", **groups))  # type: ignore[arg-type]
    return rows


def said(*rows: list[Row]) -> list[str]:
    return Guardedness.sentences(Results([r for own in rows for r in own], RECORDS))


def test_a_linear_probe_still_finds_the_groups() -> None:
    assert said(probed((0.93, 0.88), (0.97, 0.93))) == [
        "After leace (rank 1) at layer 4 a linear probe still tells female from male for 93 % of "
        "the activations to erase, names held out (before: 99 %; chance: 50 %), a non-linear one "
        "for 97 %: what the model says has changed, not what it knows, and whoever trains on these "
        "activations can bring the difference back." + PLACE
    ]


def test_a_non_linear_probe_alone_finds_them() -> None:
    assert said(probed((0.53, 0.44), (0.74, 0.66))) == [
        "After leace (rank 1) at layer 4 a linear probe does no better than chance on the "
        "activations to erase, names held out (53 %; before: 99 %; chance: 50 %), but a non-linear "
        "one tells female from male for 74 %: the difference is hidden from linear readers alone, "
        "and a network trained on these activations can bring it back." + PLACE
    ]


def test_neither_finds_them() -> None:
    assert said(probed((0.51, 0.42), (0.49, 0.40))) == [
        "After leace (rank 1) at layer 4 neither a linear probe (51 %; before: 99 %) nor a "
        "non-linear one (49 %; before: 98 %) does better than chance (50 %) at telling female from "
        "male in the activations to erase, names held out: what these probes could bring back is "
        "gone from there." + PLACE
    ]


def test_probes_that_found_nothing_before_prove_nothing() -> None:
    assert said(probed((0.51, 0.42), (0.49, 0.40), ((0.54, 0.45), (0.5, 0.41)))) == [
        "Probes could not tell female from male before leace (rank 1) at layer 4 either (linear "
        "54 %, non-linear 50 %; chance: 50 %): that they find nothing after it proves nothing."
        + PLACE
    ]


@pytest.mark.parametrize(("least", "case"), [(0.501, "still tells"), (0.5, "no better than")])
def test_the_interval_decides(least: float, case: str) -> None:
    [sentence] = said(probed((0.6, least), (0.9, 0.8)))
    assert case in sentence


def test_edits_of_one_case_share_a_sentence_and_controls_have_none() -> None:
    [one] = said(
        probed((0.93, 0.88), (0.97, 0.93)),
        probed((0.8, 0.7), (0.9, 0.8), edit="o"),
        probed((0.99, 0.95), (0.99, 0.95), edit="c"),
    )
    assert "a non-linear one for 97 %; after rlace (rank 1) at mlp_out.2 for 80 % and 90 %: " in one
    assert "random" not in one
    two = said(probed((0.93, 0.88), (0.97, 0.93)), probed((0.5, 0.4), (0.9, 0.8), edit="o"))
    assert [PLACE in sentence for sentence in two] == [False, True]


def test_names_that_the_fit_saw_are_not_called_held_out_from_it() -> None:
    def seen(row: Row) -> Row:
        return replace(row, detail={"refitted": False})

    fair, taken = probed((0.93, 0.88), (0.97, 0.93)), probed((0.9, 0.8), (0.9, 0.8), edit="o")
    [sentence] = said(fair, [seen(row) for row in taken])
    assert sentence.endswith(
        PLACE + " The names are held out from probes alone, not from the fit of rlace (rank 1), "
        "which takes too long."
    )
    [sentence] = said(fair, taken)
    assert sentence.endswith(PLACE)


def test_an_edit_of_several_parts_was_not_probed_as_one() -> None:
    tested = [Row("group_effect", 1.0, edit="b", split="test", dataset="jobs_test")]
    assert said(tested) == [
        "No probe read what leace-2@resid_post.4+5 leaves as a whole; the certificates are of "
        "its parts, each fitted as if alone."
    ]


def test_without_figures_nothing_is_said() -> None:
    rows = [row for row in probed(0.9, 0.9) if row.metric != "nonlinear_probe_accuracy"]
    unknown = [Row(row.metric, None, split="validation", edit="e") for row in rows[1:]]
    assert said([]) == said(rows) == said(rows[:1], unknown) == []


def test_every_run_has_the_sentences() -> None:
    assert METRICS.get("guardedness") is Guardedness
