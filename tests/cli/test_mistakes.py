"""A mistake gets one clear line and exit code 2, and leaves no run folder behind."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from tests.cli.test_conf import PLUGINS
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


MISTAKES = {
    "unknown command": (["audti"], "did you mean 'audit'"),
    "unknown layer": (["audit", "edit.layers=9"], "layer 9"),
    "swept layer out of range": (["sweep", "layers=[2,9]"], "unknown layer 9"),
    "swept layer that is no number": (["sweep", "layers=al"], "did you mean 'all'"),
    "swept layers that are none": (["sweep", "layers=[]"], "names no layer"),
    "swept site that is unknown": (["sweep", "sites=[resid_pst]"], "did you mean 'resid_post'"),
    "rank that is no number": (["sweep", "ranks=[one]"], "'one' is not a whole number"),
    "axes without data": (["sweep", "axes=[gender]"], "write an axis and its data"),
    "unknown tolerance": (["sweep", "+tolerance.perplexty=1"], "'cost.perplexity.budget'"),
    "budget by its old name": (["debias", "max_kl=0.1"], "did you mean 'cost.kl.budget'"),
    "tolerance by its old name": (
        ["sweep", "tolerance.agreement=0.1"],
        "did you mean 'cost.agreement.budget'",
    ),
    "budget of nothing": (["debias", "cost.kl.budget=0"], "budget=0 must be above 0"),
    "no metric": (["audit", "metric=[]"], "there is no metric"),
    "no eraser to search with": (["sweep", "eraser=none"], "there is no eraser"),
    "no eraser and an eraser": (["audit", "eraser=[none,rlace]"], "stands alone, not beside rlace"),
    "no eraser, by a wrong name": (["audit", "eraser=non"], "did you mean 'none'"),
    "no edit to save": (["edit", "eraser=none", "save=DIR"], "a checkpoint holds an edit"),
    "nothing that edits are held against": (
        ["audit", "eraser=none", "beside=asking"],
        "beside=asking stands beside edits",
    ),
    "no such file of a class": (["audit", "eraser=mine.py:Mine"], "no such file: mine.py"),
    "no such axis file": (["audit", "axis=mine.yaml"], "no file 'mine.yaml'"),
    "unknown setting of an eraser by another name": (
        ["audit", "eraser={a: {kind: rlace, rnk: 2}}"],
        "did you mean 'rank'",
    ),
    "layer that is no number": (["audit", "edit.layers=top"], "write edit.layers=best"),
    "unknown site": (["audit", "edit.site=resid_pst"], "did you mean 'resid_post'"),
    "unknown treatment of sinks": (["audit", "edit.sinks=leaf"], "did you mean 'leave'"),
    "unknown way of fitting": (["audit", "edit.fitted=inturn"], "did you mean 'in_turn'"),
    "beginning of texts": (["audit", "model.bos=maybe"], "bos='maybe': write auto, true or false"),
    "unknown positions": (
        ["audit", "edit.positions=frist"],
        "edit.positions 'frist'",
    ),
    "unknown choice": (["audit", "eraser=rlac"], "rlace"),
    "unknown choice of one of several jobs": (
        ["sweep", "layers=[1],[2]", "--multirun", "eraser=leace,rlac"],
        "rlac",
    ),
    "unknown launcher": (["sweep", "layers=[1],[2]", "-m", "launcher=joblb"], "joblib"),
    "unknown key": (["audit", "sede=1"], "sede"),
    "unknown eraser parameter": (["audit", "+eraser.rlace.rnk=2"], "rank"),
    "unknown dtype": (["audit", "model.dtype=float3"], "float32"),
    "unknown device": (["audit", "model.device=gpu0"], "gpu0"),
    "seed that is no number": (["audit", "seed=one"], "seed='one': write a whole number"),
    "unknown group": (["audit", "groups=[female,mle]"], "did you mean 'male'"),
    "key of a setting that it lacks": (["cid", "names={few:4}"], "unknown setting 'names.few'"),
    "seed that is taken away": (["audit", "~seed"], "the setting 'seed' is missing"),
    "seed of a fraction": (["audit", "seed=1.5"], "seed=1.5: write a whole number"),
    "runs that are none": (["compare", "runs=null"], "runs=None: write a list of texts or a text"),
    "temperature that is no number": (["chat", "x", "temperature=abc"], "temperature='abc': write"),
    "temperature that is none": (["chat", "x", "temperature=nan"], "temperature=nan: write"),
    "memory that is no number": (["sweep", "scratch.memory_gib=nan"], "scratch={'memory_gib': nan"),
    "flags of which one does": (["audit", "--multirun", "--cfg", "job"], "do not go together"),
    "groups that are none": (
        ["audit", "axis.groups=abc"],
        "axis.groups='abc': write a mapping",
    ),
    "metric without settings": (["audit", "metric.r=abc"], "metric.r='abc': write a mapping"),
    "device that is a number": (["audit", "model.device=5"], "model.device=5: write a text"),
    "model without a name": (["audit", "model.name=null"], "model.name=None: write a text"),
    "precision of a list": (["audit", "model.dtype=[a]"], "model.dtype=['a']: write a text"),
    "number of texts that is none": (
        ["audit", "metric.fairpair.n=abc"],
        "metric fairpair.n='abc': write a whole number",
    ),
    "one group": (["audit", "groups=[female]"], "write a list of 2 texts"),
    "missing model directory": (["audit", "model=./nowhere"], "nowhere"),
    "hub out of reach": (["audit", "model=gpt2"], "model=/path/to"),
    "empty test data": (["audit", "data.test=[]"], "no test sets"),
    "empty fitting data": (["audit", "data.fit=[]"], "no fitting sets"),
    "empty validation data": (["audit", "data.validation=[]"], "needs a set under data.validation"),
    "embeddings of a last token": (
        ["audit", "edit=embed", "edit.positions=last"],
        "use edit.positions=onward",
    ),
    "unknown data set": (["audit", "data.test=[apendix_a]"], "appendix_a"),
    "unknown testbed family": (
        ["audit", "data.test=[{source:testbed,family:trait}]"],
        "did you mean 'traits'",
    ),
    "test data fitted on": (
        [
            "audit",
            "data.fit=[{source:testbed,family:traits}]",
            "data.validation=[{source:testbed,family:traits,split:fit}]",
        ],
        "traits",
    ),
    "two sets of one name": (
        [
            "audit",
            "data.test=[{source:templates,templates:['{name} sang'],outputs:[' well']},"
            "{source:templates,templates:['{name} ran'],outputs:[' fast']}]",
        ],
        "two different sets of data.test are called 'templates'",
    ),
    "unknown task": (["classifiers", "task=sentimnet"], "sentiment"),
    "no such template file": (["classifiers", "template_file=mine.yaml"], "no file 'mine.yaml'"),
    "labels that do not fit": (["classifiers", "labels=[a,b,c]"], "names 3 label(s)"),
    "VADER for toxicity": (
        ["classifiers", "task=toxicity", "model=vader"],
        "VADER scores sentiment",
    ),
    "unknown correction": (["audit", "metric.rewordings.correction=holmes"], "did you mean 'holm'"),
    "unknown action": (["testbed", "action=verfy"], "did you mean 'verify'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_line(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, hint = MISTAKES[mistake]
    said = fails(capsys, *words)
    assert any(h in said for h in hint.split("|")), said


EXTRAS = {"joblib": "joblib", "ray": "ray", "submitit_local": "slurm", "optuna": "optuna"}
"""Launcher → the extra it comes with."""


@pytest.mark.parametrize("launcher", EXTRAS)
def test_a_launcher_without_its_extra_names_it(
    launcher: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = PLUGINS[launcher]
    if find_spec("hydra_plugins") and find_spec(plugin):
        pytest.skip("its extra is installed")
    said = fails(capsys, "sweep", "--multirun", "layers=[1],[2]", f"launcher={launcher}")
    assert f"pip install 'countergen-edit[{EXTRAS[launcher]}]'" in said


def test_a_later_job_of_multirun_is_held_against_the_types_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["cid", "--multirun", "experiment=cid_figure_5", "run_dir=one", "sentence=true,abc"])
    assert stopped.value.code == 2
    assert "error: sentence='abc': write true or false" in capsys.readouterr().err
    assert Path("one/report.html").is_file()  # the first job's, which nothing is wrong with


def test_a_hub_out_of_reach_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.monotonic()
    fails(capsys, "audit", "model=gpt2")
    assert time.monotonic() - start < 30


def test_a_directory_without_a_tokenizer_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny_model_dir("gpt2", tmp_path / "bare")
    for file in path.glob("tokenizer*"):
        file.unlink()
    assert "tokenizer" in fails(capsys, "audit", f"model={path}")


def test_a_name_of_several_tokens_is_refused_where_one_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny_model_dir("gpt2", tmp_path / "tiny")
    said = fails(capsys, "audit", f"model={path}", "data.single_token_names=true")
    assert "'Olivia'" in said


def test_a_prompt_longer_than_the_context_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = " ".join(["and her sister"] * 200)
    row = {"input": f"She left {long}", "outputs": [" home"]}
    Path("long.jsonl").write_text(json.dumps(row) + "\n")
    assert "tokens" in fails(capsys, "audit", "data=long.jsonl")


def test_groups_of_unequal_size_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    variations = [
        {"text": "She left", "categories": ["female"]},
        {"text": "He left", "categories": ["male"]},
        {"text": "Her brother left", "categories": ["female"]},
    ]
    row = {"input": "She left", "outputs": [" home"], "variations": variations}
    Path("pairs.jsonl").write_text(json.dumps(row) + "\n")
    assert "2 variation(s) for 'female' but 1 for 'male'" in fails(
        capsys, "audit", "data=pairs.jsonl"
    )


def test_an_empty_file_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("none.jsonl").write_text("")
    assert "none.jsonl" in fails(capsys, "audit", "data=none.jsonl")


def test_a_perturbation_that_changes_nothing_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("same.jsonl").write_text(json.dumps({"input": "It rained", "outputs": [" hard"]}) + "\n")
    assert "changes nothing" in fails(capsys, "audit", "data=same.jsonl")


def test_help_answers_within_a_second() -> None:
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "countergen_edit.cli.main", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "audit" in done.stdout
    assert time.monotonic() - start < 3  # a second on an idle machine; tests run on busy ones
