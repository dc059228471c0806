"""Files of one's own work from anywhere, and name their sets by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from countergen_edit.core.conf_path import config_of
from countergen_edit.data.task import Task

LINE = '{"input": "%s", "outputs": [" home"]}\n'
SOURCE = """
from countergen_edit.data.sources import templates as of_templates

def sung(request, *, templates):
    return of_templates(request, templates=templates, outputs=[" a song"])
"""
PARAPHRASES = {"fit": "{name} sat on", "validation": "{name} stood by", "test": "{name} ran to"}


def unnamed(split: str) -> dict[str, Any]:
    outputs = [" a chair", " a door"]
    return {"source": "templates", "templates": [PARAPHRASES[split]], "outputs": outputs}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """`mine/` with an axis, data, prompts, texts and code; the tests stand beside it."""
    place = tmp_path / "mine"
    (place / "deep").mkdir(parents=True)
    (place / "deep/prompts.jsonl").write_text(LINE % "She left the")
    (place / "sung.py").write_text(SOURCE)
    (place / "about_nobody.txt").write_text("\n".join(f"It rained on day {i}." for i in range(20)))
    data = {
        **{split: [unnamed(split)] for split in ("fit", "validation")},
        "test": [
            unnamed("test"),
            {"source": "jsonl", "path": "deep/prompts.jsonl"},
            {"source": "sung.py:sung", "templates": ["{name} sings"], "name": "sung"},
        ],
        "neutral": "about_nobody.txt",
    }
    (place / "asked.yaml").write_text(yaml.safe_dump(data))
    gender = config_of("axis", "gender") | {"name": "mine", "data": "asked.yaml"}
    (place / "axis.yaml").write_text(yaml.safe_dump(gender))
    monkeypatch.chdir(tmp_path)
    return place


def sets(task: Task) -> dict[str, list[str]]:
    return {s: [data.name for data in task.sets(s)] for s in ("fit", "validation", "test")}


@pytest.mark.parametrize("where", [".", "mine", "mine/deep", "/"])
def test_paths_in_a_file_are_relative_to_it(where, folder, monkeypatch):
    start = (folder.parent / where).resolve()
    monkeypatch.chdir(start)
    axis = Path("/".join([".."] * (len(start.parts) - 1) or ["."])) / str(folder)[1:] / "axis.yaml"
    for path in (axis, folder / "axis.yaml"):
        task = Task.from_config(str(path), names={"fit": 2, "validation": 2, "test": 2})
        assert sets(task)["test"] == ["asked_test", "prompts", "sung"]
        assert sum(map(len, task.neutral.values())) == 20


def test_sets_that_nobody_named_are_called_after_their_file_and_told_apart(folder):
    task = Task.from_config("gender", "mine/asked.yaml", names=None)
    assert sets(task) == {
        "fit": ["asked_fit"],
        "validation": ["asked_validation"],
        "test": ["asked_test", "prompts", "sung"],
    }
    content = config_of("data", "mine/asked.yaml")
    content["keep"] = [{**unnamed("fit"), "templates": ["{name} keeps"]}]
    content["legitimate_differences"] = [{**unnamed("fit"), "templates": ["{name} knows"]}]
    task = Task.from_config("gender", content)
    assert [data.name for data in task.keep] == ["asked_keep"]
    [own] = task.legitimate_differences["test"]
    assert own.name == "asked_legitimate_differences"
    alone = Task.from_config("gender", {"name": "mine", "test": [unnamed("test")]})
    assert sets(alone)["test"] == ["mine"]
