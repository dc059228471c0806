"""Every command that is printed can be pasted, whatever the paths are called."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from countergen_edit.testbed import directory
from tests.cli.support import call, names, prompt_file, said, sets

pytestmark = pytest.mark.slow  # whole runs

NAME = """my {} (v2), final=1 "x" it's [a] ünï"""
SMALL = ["eraser=preserving", "edit.layers=[4]", "metric=r", "cost=agreement", "texts=testbed"]
SMALL += [names(24, 4, 4, 8, few=8), *sets("traits", ["fit", "validation"])]
PEOPLE = ["Jane", "Anna", "Laura", "Julia", "Linda", "Susan", "Nancy", "Helen"]


def printed(*words: str) -> list[list[str]]:
    """The words of each command that a command prints."""
    ended = call(*words)
    assert ended.code == 0, ended.err
    found = re.findall(r"countergen-edit (\w+ .*?)\)?$", ended.out, re.M)
    return [shlex.split(command) for command in found]


def test_printed_commands_run_as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts, model, run, saved = (NAME.format(x) for x in ("data.jsonl", "model", "run", "edit"))
    prompts = f"{prompts}.jsonl"
    prompt_file(prompts, [f"{name} is known to be" for name in PEOPLE], " gentle", " bold")
    shutil.copytree(directory(), model)
    audit = ["audit", f"data={prompts}"]
    assert printed("check", prompts) == [audit]
    first, report = printed(*audit, f"model={model}", *SMALL, f"run_dir={run}")
    assert report == ["report", run]
    assert printed(*report) == [[*report, "files=[pdf,latex,evidence]"]]
    if first[0] == "debias":  # the eraser removed nothing for certain
        first = ["edit", f"run={run}", "form=carried", "save=DIR"]
    assert first == ["edit", f"run={run}", "form=carried", "save=DIR"]
    assert printed(*first[:-1], f"save={saved}") == [["chat", saved]]
    both = [run, NAME.format("other")]
    shutil.copytree(*both)
    assert ["compare", *both, "folder=DIR"] in printed("compare", *both)
    said("gate", run, "group_effect=9", "strict=false", f"json={saved}.json")
    assert json.loads(Path(f"{saved}.json").read_text("utf-8"))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    last = printed("chat", saved, "max_new_tokens=1")
    assert last == [["audit", f"model={saved}", "eraser=none"]]
