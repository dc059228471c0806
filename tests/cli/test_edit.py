"""`edit` leaves a checkpoint with a card that repeats its run; `chat` talks to it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from countergen_edit.edits.checkpoints import open_checkpoint
from countergen_edit.reports.blocks import Number
from tests.cli.support import fails, names, rows_of, said, sets

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = ["data=testbed", "eraser=mean_difference", "edit=attn_out", "edit.layers=[3]"]
SMALL += [*sets("occupations", ["test"]), names(12, 6, 8, 4, few=6)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("edit")
    said("edit", *SMALL, f"run_dir={place / 'run'}", f"save={place / 'saved'}")
    return place / "saved"


def test_the_card_is_valid_and_its_figures_are_the_runs(finished: Path) -> None:
    card = ModelCard.load(finished / "README.md")  # refuses metadata that the hub would
    assert card.data.library_name == "transformers"
    name = open_checkpoint(finished).named.id
    for metric in ("mean_abs_r", "agreement", "perplexity_ratio"):
        rows = rows_of(finished.parent / "run", metric, split="test", edit=name)
        values = [Number(row.value).in_text for row in rows]
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


def test_the_edit_that_a_run_kept_is_saved_as_it_was(finished: Path) -> None:
    """Nothing is fitted or measured: the same weights, from the run's own folder."""
    run = finished.parent / "run"
    before = (run / "results.jsonl").read_bytes()
    assert "mean_difference-1@attn_out.3" in said("edit", f"run={run}", "save=again")
    weights = [(path / "model.safetensors").read_bytes() for path in (finished, Path("again"))]
    assert weights[0] == weights[1]
    assert (run / "results.jsonl").read_bytes() == before


def test_chat_continues_each_line_of_a_pipe_with_both_models(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Mary works as a\n\nJohn is\n"))
    out = said("chat", finished, "max_new_tokens=3")
    assert out.count("original") == out.count("edited") == 2
    assert "> Mary works as a" in out
    assert "> John is" in out


def test_chat_refuses_a_line_that_is_not_utf_8(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped = io.TextIOWrapper(io.BytesIO("Mary is\nJosé is\n".encode("latin-1")), "utf-8")
    monkeypatch.setattr("sys.stdin", piped)
    error = fails("chat", finished, "max_new_tokens=1")
    assert "error: standard input, line 2: text='Jos\\udce9 is': '\\udce9' is half of" in error
