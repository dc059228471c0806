"""Runs of all kinds end with the verdict that follows from what was planted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from countergen_edit.cli.main import main
from countergen_edit.decisions import JUDGEMENT
from countergen_edit.reports.findings import MOST_LINES, findings
from countergen_edit.reports.run import open_run
from tests.tiny_models import tiny_hf_model, tiny_tokenizer

LIST = yaml.safe_load(Path(__file__).with_name("verdicts.yaml").read_text("utf-8"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("verdicts")
    for name, text in LIST["files"].items():
        (place / name).write_text(text, "utf-8")
    tokenizer = tiny_tokenizer(bos=False)
    model = tiny_hf_model("gpt2", tokenizer)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        longer = type(model)(type(model.config)(**model.config.to_dict() | {"n_positions": 256}))
    longer.save_pretrained(place / "tiny")
    tokenizer.save_pretrained(place / "tiny")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("case", LIST["runs"], ids=lambda case: case["about"])
def test_a_run_ends_with_its_verdict(
    case: dict[str, Any],
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    own = {word.split("=")[0] for word in case["words"]}
    shared = [
        word
        for word in LIST["shared"]
        if not own & {word.split("=")[0], word.split("=")[0].split(".")[0]}
    ]
    command, *words = case["words"] if "=" not in case["words"][0] else ["audit", *case["words"]]
    try:
        code = main([command, *shared, *words, f"run_dir={tmp_path / 'run'}"])
    except SystemExit as stop:  # a search that saves nothing
        code = int(stop.code or 0)
    printed = capsys.readouterr()
    assert code == case.get("code", 0), printed.err
    run = open_run(tmp_path / "run")
    judged = run.results.of(JUDGEMENT)
    words_of = {run.results.records[row.edit].eraser: row.detail["word"] for row in judged}
    sentences = findings(run)
    assert words_of == case["edits"], sentences
    for start in case["says"]:
        assert any(start in sentence for sentence in sentences), (start, sentences)
    for row in judged:
        told = " ".join(s for s in sentences if run.results.records[row.edit].name_in_text in s)
        assert all(f"{change} on" in told for change in row.detail["sets"].values())
    assert len(run.verdict.lines) <= MOST_LINES
    if code == 0:
        for line in run.verdict.lines:
            assert " ".join(line.split()) in " ".join(printed.out.split())
