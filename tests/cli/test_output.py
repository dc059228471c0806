"""Standard output of any encoding shows every text; one line where it cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROMPT = '{"input": "She said “no” \\u001b[31m😀", "outputs": [" home"]}\n'
"""With quotes that latin-1 lacks, a character that cp1252 lacks, and a command to the terminal."""


def run(
    *words: str, folder: Path, stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    (folder / "p.jsonl").write_text(PROMPT, "utf-8")
    return subprocess.run(
        [sys.executable, "-m", "countergen_edit.cli.main", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
    )


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
def test_a_character_that_the_output_lacks_is_escaped(
    encoding: str, shown: str, tmp_path: Path
) -> None:
    done = run("check", "p.jsonl", folder=tmp_path, PYTHONIOENCODING=encoding)
    said = done.stdout.decode(encoding.partition(":")[0])
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"line 1: She said {shown}" in said
    assert f"male: He said {shown}" in said
    assert "\x1b" not in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["help"], ["check", "p.jsonl"]])
def test_a_full_disk_is_one_line(words: list[str], unbuffered: str, tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = run(*words, folder=tmp_path, stdout=full, PYTHONUNBUFFERED=unbuffered)
    finally:
        os.close(full)
    line = "countergen-edit: error: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr.decode()) == (2, line)


def test_a_reader_that_has_ended_is_one_line(tmp_path: Path) -> None:
    read, written = os.pipe()
    os.close(read)
    try:
        done = run("help", folder=tmp_path, stdout=written)
    finally:
        os.close(written)
    line = "countergen-edit: error: cannot write to standard output: Broken pipe\n"
    assert (done.returncode, done.stderr.decode()) == (2, line)
