"""`audit axis=…` runs for every axis, and says no more than the model can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from countergen_edit import api
from countergen_edit.decisions.significance import is_significant
from tests.cli.support import fails, said


def audited(*words: str) -> api.Run:
    said("audit", *words, "run_dir=run")
    return api.load_run("run")


@pytest.mark.slow
def test_what_the_testbed_was_never_in_vocabulary_is_not_measured_and_said() -> None:
    run = audited("axis=age")
    assert {row.metric for row in run.results.rows} == {"in_vocabulary"}
    assert all((row.value or 0.0) < 0.5 for row in run.results.rows)
    [sentence] = run.findings
    assert sentence.startswith("Not measured: words of age (such as ")
    assert "are out of the model's vocabulary" in sentence
    assert "Neither bias nor its absence is shown" in sentence
    assert Path("run/report.html").is_file()


def test_nothing_is_edited_for_what_a_model_was_never_in_vocabulary() -> None:
    error = fails("sweep", "axis=religion", "run_dir=run")
    assert "words of religion, such as" in error
    assert "are out of the vocabulary of testbed: name another model" in error
    assert not Path("run").exists()


@pytest.mark.slow
def test_crossed_axes_show_each_alone_and_what_was_planted_on_neither_together() -> None:
    run = audited(
        "axis=[gender,nationality]",
        "data.test=[{source: testbed, family: occupations, first_names: 4}]",
        "eraser=none",
        "metric=[r,intersections]",
        "groups=[egypt_female,usa_female,egypt_male,usa_male]",
    )
    marginal = {(r.axis, r.group_a, r.group_b): r for r in run.results.unedited("marginal_effect")}
    assert {axis for axis, *_ in marginal} == {"gender", "nationality"}
    gender = marginal["gender", "female", "male"]
    assert is_significant(gender)
    cells = run.results.unedited("intersection")
    assert len(cells) == 4
    assert not any(map(is_significant, cells))
    assert all((cell.value or 0.0) < 0.25 * (gender.value or 0.0) for cell in cells)
    assert "add up to" in " ".join(run.findings)
