"""`eraser=none` measures an unedited model, one of any kind, and says nothing about edits."""

from __future__ import annotations

from pathlib import Path

import pytest

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
