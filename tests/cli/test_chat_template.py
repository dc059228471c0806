"""Runs in a chat template say so everywhere, and never share what was measured outside of it."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from countergen_edit.models import load
from countergen_edit.runs.folder import read_rows
from countergen_edit.testbed import directory
from tests.made_benchmarks import make_benchmarks, settings

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
    tokenizer = load(folder).tokenizer
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
    assert json.loads((saved / "countergen_edit.json").read_text())["template"] == told
    card = (saved / "README.md").read_text()
    assert f"as the beginning of its reply to “{TOLD}”" in card
    assert told["sha256"] in card
    page = (run / "report.html").read_text()
    assert f"as the beginning of its reply to “{TOLD}”" in page
    # What was saved of a run is saved again as it was measured.
    assert main(["edit", f"run={run}", f"save={saved.parent / 'again'}"]) == 0
    assert json.loads((saved.parent / "again/countergen_edit.json").read_text())["template"] == told


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
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for template in ([], ["model.template=none"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("Jane works as a\n"))
        assert main(["chat", str(saved), "max_new_tokens=6", *template]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] != said[1]


def test_benchmarks_say_how_they_were_asked(place: Path, templated: Path) -> None:
    made = make_benchmarks(place / "benchmarks")
    own = settings(made)
    for template, asked in (("none", False), ("chat", True)):
        run = place / f"benchmarks_{template}"
        words = [
            *("audit", f"model={templated}", f"model.template={template}", "texts=testbed"),
            *("eraser=none", "metric=benchmarks", "metric.benchmarks.of=[crows_pairs]"),
            *(f"metric.benchmarks.{key}={value}" for key, value in own.items() if key != "of"),
            *("data=testbed", "names={fit: 8, validation: 4, test: 4, agreement: 2}"),
            f"run_dir={run}",
        ]
        assert main(words) == 0
        rows = read_rows(run / "results.jsonl")
        [source] = [row for row in rows if row.metric == "benchmark_source"]
        assert source.detail["in_template"] is asked
        assert source.detail["asked"] is False
        page = (run / "report.html").read_text()
        assert ("in the chat template, as the model" in page) is asked


def test_a_model_that_thinks_first_replies_after_an_empty_thought_and_the_page_says_so(
    place: Path, templated: Path
) -> None:
    folder = shutil.copytree(templated, place / "thinking")
    tokenizer = load(folder).tokenizer
    tokenizer.chat_template = TEMPLATE + "<think>\n"
    tokenizer.save_pretrained(folder)
    few = ["names={fit: 3, few: 2, agreement: 2, validation: 2, test: 2}", "limit=2", "cost=[]"]
    words = [*RUN[:2], *few, "eraser=none", "metric=r", f"model={folder}", "model.template=chat"]
    assert main(["audit", *words, f"run_dir={place / 'thought'}"]) == 0
    assert json.loads((place / "thought/manifest.json").read_text())["template"]["thought"]
    said = "the beginning of its reply to “Write a short text in plain English. Begin at once.”"
    page = (place / "thought/report.html").read_text()
    assert f"{said}, which begins after an empty thought" in page
