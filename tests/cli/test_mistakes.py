"""A mistake gets one clear line and exit code 2, and leaves no run folder behind.

`bad_inputs.yaml` lists those that take no more than words and small files.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins

from countergen_edit.cli.main import main
from tests.tiny_models import tiny_model_dir


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must fail as a mistake does; give back what it said."""
    capsys.readouterr()
    try:
        code = main(list(words))
    except SystemExit as stop:
        code = int(stop.code or 0)
    said = capsys.readouterr().err.strip()
    assert code == 2, said
    assert said.startswith("countergen-edit: error: ")
    assert len(said.splitlines()) == 1, said
    assert not Path("runs").exists()
    assert not Path("outputs").exists()
    return said


EXTRAS = {"joblib": "joblib", "ray": "ray", "submitit_local": "slurm"}
"""Launcher → the extra it comes with."""


@pytest.mark.parametrize("launcher", EXTRAS)
def test_a_launcher_without_its_extra_names_it(
    launcher: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Plugins.instance()  # those that are installed have entered their settings
    launchers = ConfigStore.instance().repo["hydra"]["launcher"]
    monkeypatch.delitem(launchers, f"{launcher}.yaml", raising=False)
    said = fails(capsys, "sweep", "--multirun", "layers=[1],[2]", f"launcher={launcher}")
    assert f"pip install 'countergen-edit[{EXTRAS[launcher]}]'" in said


@pytest.mark.slow
def test_the_jobs_of_multirun_go_on_after_one_that_fails_which_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tiny = ["action=audit", "names=1", "lambda=0", "max_new_tokens=1", "run_dir=one"]
    with pytest.raises(SystemExit) as stopped:
        main(["cid", "--multirun", *tiny, "per_kind=4,abc,4"])
    assert stopped.value.code == 1
    said = capsys.readouterr()
    first, last = said.err.strip().splitlines()
    assert first.startswith("countergen-edit: error: per_kind='abc': Input should be a valid")
    assert last.startswith("countergen-edit: 1 of 3 jobs failed: per_kind=abc (per_kind='abc': Inp")
    assert said.out.count("Page: one/report.html") == 2  # of the jobs before and after


def test_a_directory_without_a_tokenizer_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny_model_dir("gpt2", tmp_path / "bare")
    for file in path.glob("tokenizer*"):
        file.unlink()
    assert "tokenizer" in fails(capsys, "audit", f"model={path}")


@pytest.mark.slow
def test_a_name_of_several_tokens_is_refused_where_one_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny_model_dir("gpt2", tmp_path / "tiny")
    own = [f"model={path}", "texts=testbed", "data=testbed", "data.single_token_names=true"]
    said = fails(capsys, "audit", *own)
    assert "'Olivia'" in said


@pytest.mark.slow
def test_a_prompt_longer_than_the_context_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = " ".join(["and her sister"] * 200)
    row = {"input": f"She left {long}", "outputs": [" home"]}
    Path("long.jsonl").write_text(json.dumps(row) + "\n")
    assert "tokens" in fails(capsys, "audit", "data=long.jsonl")
