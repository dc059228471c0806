"""Unedited models of any kind, and axes of every kind, are measured as far as they can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from countergen_edit import api
from countergen_edit.decisions.significance import is_significant
from tests.cli.support import fails, names, said
from tests.tiny_models import tiny_model_dir

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = [
    *("metric.fairpair.n=4", "metric.fairpair.occupations=2", "metric.fairpair.max_new_tokens=4"),
    *("metric.fairpair.permutations=20", "metric.cid.names=1", "metric.cid.strengths=[0,10]"),
    "metric.cid.max_new_tokens=4",
]
GENERATING = ["eraser=none", "metric=[fairpair,cid]", *SMALL]


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_dir("t5", tmp_path_factory.mktemp("models") / "t5")


@pytest.fixture(scope="module")
def runs(t5: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of a T5 and one of the testbed, measured as they came."""
    folder = tmp_path_factory.mktemp("runs")
    said("audit", f"model={t5}", *GENERATING, f"run_dir={folder / 't5'}")
    every = ["metric=[r,paraphrases,fairpair,cid,off_target]", names(8, 4, 6, 2, few=4)]
    own = ["data=testbed", "eraser=none", *every, *SMALL]
    said("audit", *own, f"run_dir={folder / 'testbed'}")
    return folder


def test_a_t5_is_measured_from_the_command_line_and_not_measured_again(
    t5: Path, runs: Path
) -> None:
    before = (runs / "t5/results.jsonl").read_bytes()
    printed = said("audit", f"model={t5}", *GENERATING, f"run_dir={runs / 't5'}")
    assert (runs / "t5/results.jsonl").read_bytes() == before
    why = "as it is an encoder-decoder model: agreement, perplexity"
    assert f"Not measured on {t5}, {why}" in printed
    assert "F = B²/(V_gp V_pg) above 1" in printed
    assert "Contrastive decoding" in printed


def test_what_cannot_be_measured_names_what_can(t5: Path) -> None:
    line = fails("audit", f"model={t5}", "eraser=none", "metric=[r,cid]")
    assert "metric=r needs likelihoods" in line
    assert "metric=[fairpair,cid]" in line
    line = fails("audit", f"model={t5}", "metric=[fairpair,cid]")
    assert "eraser=none metric=[fairpair,cid]" in line


def test_no_edit_of_it_can_be_saved(runs: Path) -> None:
    line = fails("edit", f"run={runs / 'testbed'}", "save=edited")
    assert "made no edit: nothing to save" in line


def audited(*words: str) -> api.Run:
    said("audit", *words, "run_dir=run")
    return api.load_run("run")


def test_what_the_testbed_was_never_in_vocabulary_is_not_measured_and_said() -> None:
    run = audited("axis=age")
    assert {row.metric for row in run.results.rows} == {"in_vocabulary"}
    assert all((row.value or 0.0) < 0.5 for row in run.results.rows)
    [sentence] = run.findings
    assert sentence.startswith("Not measured: words of age (such as ")
    assert "are out of the model's vocabulary" in sentence
    assert "Neither bias nor its absence is shown" in sentence
    assert Path("run/report.html").is_file()


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
