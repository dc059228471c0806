"""Every command that is printed can be pasted, whatever the paths are called."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from countergen_edit.testbed import directory

pytestmark = pytest.mark.slow  # whole runs

NAME = """my {} (v2), final=1 "x" it's [a] ünï"""
SMALL = [
    *("eraser=preserving", "edit.layers=[4]", "metric=r", "cost=agreement", "texts=testbed"),
    "names={fit: 24, few: 8, agreement: 8, validation: 4, test: 4}",
    *(f"data.{split}=[{{source: testbed, family: traits}}]" for split in ("fit", "validation")),
]
PEOPLE = ["Jane", "Anna", "Laura", "Julia", "Linda", "Susan", "Nancy", "Helen"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[list[str]]:
    """The words of each command that a command prints."""
    assert main([*words]) == 0
    found = re.findall(r"countergen-edit (\w+ .*?)\)?$", capsys.readouterr().out, re.M)
    return [shlex.split(command) for command in found]


def test_printed_commands_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    prompts, model, run, saved = (NAME.format(x) for x in ("data.jsonl", "model", "run", "edit"))
    rows = [{"input": f"{n} is known to be", "outputs": [" gentle", " bold"]} for n in PEOPLE]
    prompts = f"{prompts}.jsonl"
    Path(prompts).write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    shutil.copytree(directory(), model)
    audit = ["audit", f"data={prompts}"]
    assert printed(capsys, "check", prompts) == [audit]
    first, report = printed(capsys, *audit, f"model={model}", *SMALL, f"run_dir={run}")
    assert report == ["report", run]
    assert printed(capsys, *report) == [[*report, "files=[pdf,latex,evidence]"]]
    if first[0] == "debias":  # the eraser removed nothing for certain
        first = ["edit", f"run={run}", "form=carried", "save=DIR"]
    assert first == ["edit", f"run={run}", "form=carried", "save=DIR"]
    assert printed(capsys, *first[:-1], f"save={saved}") == [["chat", saved]]
    both = [run, NAME.format("other")]
    shutil.copytree(*both)
    assert ["compare", *both, "folder=DIR"] in printed(capsys, "compare", *both)
    assert main(["gate", run, "group_effect=9", "strict=false", f"json={saved}.json"]) == 0
    assert json.loads(Path(f"{saved}.json").read_text("utf-8"))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    last = printed(capsys, "chat", saved, "max_new_tokens=1")
    assert last == [["audit", f"model={saved}", "eraser=none"]]
