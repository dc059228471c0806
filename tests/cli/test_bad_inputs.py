"""Every bad input of the list gets its line, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

LISTS = yaml.safe_load(Path(__file__).with_name("bad_inputs.yaml").read_text("utf-8"))
FEW = "names={fit: 3, few: 2, agreement: 2, validation: 2, test: 2}"


class Case(NamedTuple):
    needs: str
    command: str
    says: str
    files: Mapping[str, str | bytes]


def cases():
    made = []
    for needs in ("nothing", "torch", "model", "inspect_ai"):
        for command, answers in LISTS[needs].items():
            for answer in answers if isinstance(answers, list) else [{"says": answers}]:
                files = {name: content for name, content in answer.items() if name != "says"}
                made.append(Case(needs, command, answer["says"], files))
    number = f'{{"input": "She left", "outputs": [{"9" * 5000}]}}\n'
    cell = f"input,output\n{'a' * 140_000}, home\n"
    for name, content, says in (
        ("p.jsonl", "[" * 100_000, "p.jsonl: nested too deeply"),
        ("p.jsonl", number, "p.jsonl, line 1: not JSON"),
        ("p.csv", cell, "p.csv, line 2: not CSV (field larger than field limit"),
    ):
        made.append(Case("nothing", f"audit data={name}", says, {name: content}))
    long = "a" * 300
    for needs, command in (
        *(("nothing", c) for c in ("audit run_dir=", "audit model=./", "report ")),
        ("torch", "edit eraser=leace save="),
    ):
        says = f"{long[:40]!r}… is too long for a file name"
        made.append(Case(needs, command + long, says, {}))
    return made


CASES = cases()
AT_ONCE = [case for case in CASES if case.needs == "nothing"]
LATER = [case for case in CASES if case.needs != "nothing"]


def attempt(case, folder):
    """What a command does in a folder of its own that holds the files."""
    from countergen_edit.cli.main import main

    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    printed = io.StringIO()
    try:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stderr(printed),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            code = main([FEW if word == "FEW" else word for word in shlex.split(case.command)])
    except SystemExit as stop:
        code = int(stop.code or 0)
    files = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    left = sorted({path.relative_to(folder).as_posix() for path in files} - {*case.files})
    torch = "torch" in sys.modules and case.needs == "nothing"
    return {"code": code, "line": printed.getvalue().strip(), "left": left, "early_torch": torch}


@pytest.fixture(scope="module")
def at_once(tmp_path_factory):
    """What comes of all that must be answered before torch is imported, in one fresh process."""
    program = [sys.executable, "-m", "tests.cli.test_bad_inputs"]
    words = [*program, tmp_path_factory.mktemp("at_once")]
    root = Path(__file__).parents[2]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == len(AT_ONCE), done.stderr
    return outcomes


def require_answered(case, outcome):
    line = outcome.pop("line")
    assert line.startswith(f"countergen-edit: error: {case.says}")
    assert len(line.splitlines()) == 1
    assert outcome == {"code": 2, "left": [], "early_torch": False}


@pytest.mark.parametrize("at", range(len(AT_ONCE)), ids=lambda at: AT_ONCE[at].command)
def test_a_bad_input_gets_its_line_at_once(at, at_once):
    require_answered(AT_ONCE[at], at_once[at])


@pytest.mark.slow
@pytest.mark.parametrize("case", LATER, ids=lambda case: case.command)
def test_a_bad_input_gets_its_line_late(case, tmp_path):
    pytest.importorskip("torch" if case.needs == "model" else case.needs)
    require_answered(case, attempt(case, tmp_path))


if __name__ == "__main__":
    for number, one in enumerate(AT_ONCE):
        place = Path(sys.argv[1]) / str(number)
        place.mkdir()
        print(json.dumps(attempt(one, place)), flush=True)
