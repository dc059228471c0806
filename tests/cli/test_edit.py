"""`edit` leaves a checkpoint with a card that repeats its run; `chat` talks to it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from countergen_edit.cli.main import main
from countergen_edit.edits.checkpoints import open_checkpoint
from countergen_edit.reports.blocks import Number
from countergen_edit.runs.folder import read_rows

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = [
    "data=testbed",
    "eraser=mean_difference",
    "edit=attn_out",
    "edit.layers=[3]",
    "data.test=[{source:testbed,family:occupations}]",
    "names={fit: 12, few: 6, agreement: 4, validation: 6, test: 8}",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("edit")


@pytest.fixture(scope="module")
def finished(place: Path) -> Path:
    assert main(["edit", *SMALL, f"run_dir={place / 'run'}", f"save={place / 'saved'}"]) == 0
    return place / "saved"


def test_the_card_is_valid_and_its_figures_are_the_runs(finished: Path) -> None:
    card = ModelCard.load(finished / "README.md")  # refuses metadata that the hub would
    rows = read_rows(finished.parent / "run" / "results.jsonl")
    assert card.data.library_name == "transformers"
    name = open_checkpoint(finished).named.id
    tested = [r for r in rows if r.split == "test" and r.edit == name]
    for metric in ("mean_abs_r", "agreement", "perplexity_ratio"):
        values = [Number(r.value).in_text for r in tested if r.metric == metric]
        assert values
        assert any(value.split(" ")[0] in card.text for value in values)


def test_the_card_says_how_to_repeat_the_run_and_what_was_not_measured(finished: Path) -> None:
    text = (finished / "README.md").read_text()
    record = open_checkpoint(finished).record
    for figure in (record["fingerprint"], record["model_hash"], record["data_hash"]):
        assert figure in text
    assert "eraser=mean_difference" in text
    assert "- FairPair: " in text.partition("## What was not measured")[2]
    assert "trust_remote_code" not in text  # folded
    for path in finished.rglob("*"):
        if path.is_file() and path.suffix != ".safetensors":
            assert str(finished.parent) not in path.read_text("utf-8"), path


def test_the_edit_that_a_run_kept_is_saved_as_it_was(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is fitted or measured: the same weights, from the run's own folder."""
    run, again = finished.parent / "run", finished.parent / "again"
    before = (run / "results.jsonl").read_bytes()
    assert main(["edit", f"run={run}", f"save={again}"]) == 0
    assert "mean_difference-1@attn_out.3" in capsys.readouterr().out
    weights = [(folder / "model.safetensors").read_bytes() for folder in (finished, again)]
    assert weights[0] == weights[1]
    assert (run / "results.jsonl").read_bytes() == before


def test_chat_continues_each_line_of_a_pipe_with_both_models(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Mary works as a\n\nJohn is\n"))
    assert main(["chat", str(finished), "max_new_tokens=3"]) == 0
    out = capsys.readouterr().out
    assert out.count("original") == out.count("edited") == 2
    assert "> Mary works as a" in out
    assert "> John is" in out


def test_chat_refuses_a_line_that_is_not_utf_8(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped = io.TextIOWrapper(io.BytesIO("Mary is\nJosé is\n".encode("latin-1")), "utf-8")
    monkeypatch.setattr("sys.stdin", piped)
    assert main(["chat", str(finished), "max_new_tokens=1"]) == 2
    error = capsys.readouterr().err
    assert "error: standard input, line 2: text='Jos\\udce9 is': '\\udce9' is half of" in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["edit", "save=/proc/nowhere"], "cannot write save=/proc/nowhere"),
        (["edit", "save=new", "edit.layers=[3]"], "form=carried"),
    ],
)
def test_mistakes_are_said_in_one_line_before_any_work(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main(words)
    except SystemExit as stop:
        code = int(str(stop.code))
    error = capsys.readouterr().err
    assert code == 2
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
