"""Standard output of any encoding shows every text; one line where it cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import ENVIRONMENT

PROMPT = '{"input": "She said “no” \\u001b[31m😀", "outputs": [" home"]}\n'
"""With quotes that latin-1 lacks, a character that cp1252 lacks, and a command to the terminal."""


def run(
    *words: str, stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    Path("p.jsonl").write_text(PROMPT, "utf-8")
    program = [sys.executable, "-m", "countergen_edit.cli.main", *words]
    how: dict[str, Any] = {"env": ENVIRONMENT | environment, "stdout": stdout}
    return subprocess.run(program, stderr=subprocess.PIPE, check=False, **how)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", r"\u201cno\u201d  [31m\U0001f600"),
        ("ascii:strict", r"\u201cno\u201d  [31m\U0001f600"),
        ("cp1252", r"“no”  [31m\U0001f600"),
        ("latin-1", r"\u201cno\u201d  [31m\U0001f600"),
        ("utf-8", "“no”  [31m😀"),
    ],
)
def test_a_character_that_the_output_lacks_is_escaped(encoding: str, shown: str) -> None:
    done = run("check", "p.jsonl", PYTHONIOENCODING=encoding)
    said = done.stdout.decode(encoding.partition(":")[0])
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"line 1: She said {shown}" in said
    assert f"male: He said {shown}" in said
    assert "\x1b" not in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["help"], ["check", "p.jsonl"]])
def test_a_full_disk_is_one_line(words: list[str], unbuffered: str) -> None:
    require_one_line(
        os.open("/dev/full", os.O_WRONLY), "No space left on device", *words, unbuffered=unbuffered
    )


def test_a_reader_that_has_ended_is_one_line() -> None:
    read, written = os.pipe()
    os.close(read)
    require_one_line(written, "Broken pipe", "help")


def require_one_line(output: int, why: str, *words: str, unbuffered: str = "") -> None:
    try:
        done = run(*words, stdout=output, PYTHONUNBUFFERED=unbuffered)
    finally:
        os.close(output)
    line = f"countergen-edit: error: cannot write to standard output: {why}\n"
    assert (done.returncode, done.stderr.decode()) == (2, line)
