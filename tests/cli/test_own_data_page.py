"""The commands of the page about one's own data, typed as printed beside its files."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

import pytest

import countergen_edit
from countergen_edit import api
from countergen_edit.cli.main import main
from countergen_edit.models import LanguageModel
from countergen_edit.runs.run import open_run
from tests.data.test_splits import NAMES, TEMPLATES, file_of
from tests.printed import commands, files

PAGE = (Path(countergen_edit.__file__).parent.parent / "docs/own_data.md").read_text("utf-8")
QUICK = [
    "eraser=rlace",
    "metric=r",
    "cost=agreement",
    "edit.layers=[4]",
    "names={fit: 6, few: 3, agreement: 2, validation: 3, test: 4}",
]
"""What makes an audit quick enough for a test."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, content in files(PAGE).items():
        (tmp_path / name).write_text(content, "utf-8")
    texts = [text.format(name) for text, name in zip(TEMPLATES, NAMES, strict=False)]
    file_of(tmp_path, texts, "many.jsonl")
    return tmp_path


def test_the_page_has_a_prompt_file_of_every_format() -> None:
    assert {*files(PAGE)} == {"pairs.jsonl", "pairs.csv", "sides.csv", "work.yaml"}


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.csv"])
def test_the_default_model_knows_the_words_of_its_prompts(
    name: str, place: Path, testbed: LanguageModel
) -> None:
    task = api.task("gender", str(place / name), names={"test": 2})
    assert api.in_vocabulary(testbed, task, keys=("fit", "validation")).warnings == ()


@pytest.mark.slow
def test_every_command_of_the_page_does_what_it_says(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [shlex.split(line, comments=True)[1:] for line in commands(PAGE)]
    with contextlib.chdir(place):
        for command, *words in asked:
            if command == "debias" or "eraser=none" in words:
                continue  # tests of their own run them
            assert main([command, *words, *(QUICK if command == "audit" else [])]) == 0, words
        for name in ("pairs.csv", "sides.csv"):
            assert main(["check", name]) == 0
    assert "2 prompts, no warnings." in capsys.readouterr().out
    tested = [
        {row.dataset for row in open_run(run).results.of("mean_abs_r")}
        for run in (place / "runs/audit").iterdir()
    ]
    work = {"work_test", "pairs"}
    for names in ({"pairs"}, {"many_test"}, work):
        assert names in tested
