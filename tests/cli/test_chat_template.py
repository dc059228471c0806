"""Runs in a chat template say so everywhere, and never share what was measured outside of it."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from countergen_edit.models import load_model
from countergen_edit.runs.folder import read_rows
from countergen_edit.testbed import directory

pytestmark = pytest.mark.slow  # whole runs

TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}{{ eos_token }}"
TOLD = "The report was late."
RUN = [
    *("data=testbed", "texts=testbed", "data.test=[{source: testbed, family: occupations}]"),
    *("names={fit: 8, validation: 4, test: 4, agreement: 2}", "eraser=mean_difference"),
    *("edit=attn_out", "edit.layers=[3]", "metric=r", "cost=[perplexity]"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("template")


@pytest.fixture(scope="module")
def templated(place: Path) -> Path:
    """The testbed with a chat template, of words that it knows."""
    folder = place / "templated"
    shutil.copytree(directory(), folder)
    tokenizer = load_model(folder).tokenizer
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def saved(place: Path, templated: Path) -> Path:
    own = [f"model={templated}", "model.template=chat", f"model.instruction={TOLD}"]
    assert main(["edit", *RUN, *own, f"run_dir={place / 'run'}", f"save={place / 'saved'}"]) == 0
    return place / "saved"


def test_the_run_and_what_is_saved_of_it_say_in_which_template(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = saved.parent / "run"
    told = json.loads((run / "manifest.json").read_text())["template"]
    assert told["instruction"] == TOLD
    assert json.loads((saved / "recipe.json").read_text())["template"] == told
    card = (saved / "README.md").read_text()
    assert f"as the beginning of its reply to “{TOLD}”" in card
    assert told["sha256"] in card
    page = (run / "report.html").read_text()
    assert f"as the beginning of its reply to “{TOLD}”" in page
    # What was saved of a run is saved again as it was measured.
    assert main(["edit", f"run={run}", f"save={saved.parent / 'again'}"]) == 0
    assert json.loads((saved.parent / "again/recipe.json").read_text())["template"] == told


def test_no_figure_is_that_of_texts_as_they_stand(
    saved: Path, templated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = saved.parent / "run"
    audit = ["audit", *RUN[:-1], "cost=null", "eraser=none", f"model={templated}"]
    assert main([*audit, f"run_dir={saved.parent / 'plain'}"]) == 0
    inside, plain = (
        {r.key: r.value for r in read_rows(path / "results.jsonl") if r.metric == "mean_abs_r"}
        for path in (run, saved.parent / "plain")
    )
    assert {inside[key] == plain[key] for key in plain} == {False}
    # The folder of one is not continued by the other.
    capsys.readouterr()
    again = [*audit, "model.template=auto", f"run_dir={saved.parent / 'plain'}"]
    assert main(again) == 2
    assert "belongs to another run" in capsys.readouterr().err


def test_chat_replies_to_a_message_in_the_template_of_the_checkpoint(
    saved: Path,
    templated: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = []
    for template in ([], ["model.template=none"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("Jane works as a\n"))
        words = [f"original={templated}", "max_new_tokens=6", *template]
        assert main(["chat", str(saved), *words]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] != said[1]
