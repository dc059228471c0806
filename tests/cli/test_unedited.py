"""`eraser=none` measures an unedited model, one of any kind, and says nothing about edits."""

from __future__ import annotations

from pathlib import Path

import pytest

from countergen_edit import api
from countergen_edit.cli.main import main
from tests.cli.test_mistakes import fails
from tests.tiny_models import tiny_model_dir

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = [
    "metric.fairpair.n=4",
    "metric.fairpair.occupations=2",
    "metric.fairpair.max_new_tokens=4",
    "metric.fairpair.permutations=20",
    "metric.cid.names=1",
    "metric.cid.strengths=[0,10]",
    "metric.cid.max_new_tokens=4",
]
GENERATING = ["eraser=none", "metric=[fairpair,cid]", *SMALL]
FEW = "names={fit: 8, few: 4, agreement: 2, validation: 4, test: 6}"


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_dir("t5", tmp_path_factory.mktemp("models") / "t5")


@pytest.fixture(scope="module")
def runs(t5: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An audit of a T5 and one of the testbed, measured as they came."""
    folder = tmp_path_factory.mktemp("runs")
    every = "metric=[r,paraphrases,fairpair,cid,off_target]"
    commands = {
        "t5": [f"model={t5}", *GENERATING],
        "testbed": ["data=testbed", "eraser=none", every, *SMALL, FEW],
    }
    for name, words in commands.items():
        assert main(["audit", *words, f"run_dir={folder / name}"]) == 0
    return {name: folder / name for name in commands}


def test_a_t5_is_measured_from_the_command_line_and_not_measured_again(
    t5: Path, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    before = (runs["t5"] / "results.jsonl").read_bytes()
    assert main(["audit", f"model={t5}", *GENERATING, f"run_dir={runs['t5']}"]) == 0
    assert (runs["t5"] / "results.jsonl").read_bytes() == before
    said = " ".join(capsys.readouterr().out.split())
    assert f"Not measured on {t5}, as it is an encoder-decoder model: agreement, perplexity" in said
    assert "F = B²/(V_gp V_pg) above 1" in said
    assert "Contrastive decoding" in said


def test_what_cannot_be_measured_names_what_can(
    t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = fails(capsys, "audit", f"model={t5}", "eraser=none", "metric=[r,cid]")
    assert "metric=r needs likelihoods" in said
    assert "metric=[fairpair,cid]" in said
    said = fails(capsys, "audit", f"model={t5}", "metric=[fairpair,cid]")
    assert "eraser=none metric=[fairpair,cid]" in said


def test_no_edit_of_it_can_be_saved(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["edit", f"run={runs['testbed']}", f"save={tmp_path / 'edited'}"]) == 2
    assert "made no edit: nothing to save" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["eraser=null", "eraser=[]", "eraser=[none]"])
def test_no_eraser_is_written_in_several_ways(word: str) -> None:
    from countergen_edit.cli.overrides import overrides_of
    from countergen_edit.cli.study import Study
    from tests.cli.test_conf import composed

    ways = [
        Study(composed("audit", *overrides_of("audit", [way]))).config
        for way in (word, "eraser=none")
    ]
    assert ways[0] == ways[1]


def test_python_takes_no_eraser_either(tmp_path: Path) -> None:
    traits = [{"source": "testbed", "family": "traits"}]
    task = api.task("gender", {"fit": traits, "validation": traits, "test": traits})
    run = api.audit("testbed", task, metrics=["r", "agreement"], folder=tmp_path / "run")
    assert not run.edits
    assert {row.split for row in run.results.rows} == {"test"}
    assert run.manifest["names"]["gender"]["fit"] == {"female": [], "male": []}
