"""What a command writes, how it shows its progress, and how it ends when it is asked to."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from countergen_edit.cli import main as door
from countergen_edit.cli.edit import Saving
from countergen_edit.core.errors import UserError
from countergen_edit.core.stages import printed, stage
from tests.cli.support import ENVIRONMENT, sets

PROMPT = '{"input": "She said “no” \\u001b[31m😀", "outputs": [" home"]}\n'
"""With quotes that latin-1 lacks, a character that cp1252 lacks, and a command to the terminal."""


def run(*words, stdout=subprocess.PIPE, **environment):
    Path("p.jsonl").write_text(PROMPT, "utf-8")
    program = [sys.executable, "-m", "countergen_edit.cli.main", *words]
    how = {"env": ENVIRONMENT | environment, "stdout": stdout}
    return subprocess.run(program, stderr=subprocess.PIPE, check=False, **how)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", r"\u201cno\u201d  [31m\U0001f600"),
        ("cp1252", r"“no”  [31m\U0001f600"),
        ("utf-8", "“no”  [31m😀"),
    ],
)
def test_a_character_that_the_output_lacks_is_escaped(encoding, shown):
    done = run("check", "p.jsonl", PYTHONIOENCODING=encoding)
    printed = done.stdout.decode(encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"line 1: She said {shown}" in printed
    assert f"male: He said {shown}" in printed
    assert "\x1b" not in printed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [(["help"], ""), (["help"], "1"), (["check", "p.jsonl"], ""), (["help"], None)],
)
def test_a_full_disk_and_a_reader_that_has_ended_are_one_line(words, unbuffered):
    if unbuffered is None:
        read, output = os.pipe()
        os.close(read)
    else:
        output = os.open("/dev/full", os.O_WRONLY)
    done = run(*words, stdout=output, PYTHONUNBUFFERED=unbuffered or "")
    os.close(output)
    why = "Broken pipe" if unbuffered is None else "No space left on device"
    line = f"countergen-edit: error: cannot write to standard output: {why}\n"
    assert (done.returncode, done.stderr.decode()) == (2, line)


WORDS = ["eraser=mean_difference", "metric=[r]", "combine=1", "layers=[1]", *sets("traits")]


@pytest.mark.slow
def test_the_opening_comes_before_the_work():
    program = [sys.executable, "-m", "countergen_edit.cli.main", "debias", *WORDS, "run_dir=run"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        first = process.stdout.readline()
        assert not Path("run/report.html").exists()
        assert process.poll() is None
        rest = process.stdout.read()
    assert first == "  0:00 debias: loading …\n"
    stages = ["unedited model: 1 unit", "candidates on validation data: 1 unit"]
    begun = [match.groups() for match in re.finditer(r"(?m)^ *(\d+):(\d\d) (.*)$", rest)]
    assert [text for *_, text in begun if text in stages] == stages
    seconds = [60 * int(minutes) + int(second) for minutes, second, _ in begun]
    assert seconds == sorted(seconds)


def test_a_function_call_prints_no_stage(capsys):
    stage("outside")
    with printed():
        stage("inside")
    stage("after")
    assert capsys.readouterr().out == "  0:00 inside\n"


@pytest.mark.parametrize(
    ("each", "lines"),
    [
        (0.5, []),
        (2.0, [(2, 4), (33, 3)]),
        (40.0, [(done, math.ceil((100 - done) * 40 / 60)) for done in range(1, 51, 2)]),
    ],
)
def test_the_time_left_is_forecast_early_and_then_said_once_a_minute(
    each, lines, monkeypatch, capsys
):
    """Of the first of two portions of equal length."""
    from countergen_edit.models import progress

    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with printed():
        for _ in progress.track(range(50), "Scoring", (0.0, 0.5)):
            clock[0] += each
    form = r" *\S+ Scoring: (\d+)%, about (\d+) min left, (\S+) GiB in use"
    shown = [re.fullmatch(form, x).groups() for x in capsys.readouterr().out.splitlines()]
    assert [(int(done), int(left)) for done, left, _ in shown] == lines
    assert all(0.05 < float(used) < 64 for *_, used in shown)


@pytest.fixture(autouse=True)
def _interrupted():
    """A shell has what it runs in the background ignore interrupts, which is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("what", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_asked_to_stop_a_command_puts_things_in_order(what, code, monkeypatch, capsys):
    ended = []

    def run(command, words):
        try:
            os.kill(os.getpid(), what)
        finally:
            ended.append(command)

    before = signal.getsignal(what)
    monkeypatch.setattr(door, "run_command", run)
    assert door.main(["audit"]) == code
    assert ended == ["audit"]
    line = "countergen-edit: stopped; the same command continues the run\n"
    assert capsys.readouterr().err == line
    assert signal.getsignal(what) == before


def test_who_is_told_to_ignore_the_request_ignores_it(monkeypatch):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        monkeypatch.setattr(door, "run_command", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
        assert door.main(["audit"]) == 0
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_command_goes_on_where_its_own_checkpoint_is_and_no_other(tmp_path):
    place = tmp_path / "saved"
    place.mkdir()
    (place / "SHA256SUMS").touch()
    made = ["countergen-edit", "edit", "eraser=leace", "save=DIR"]
    (place / "recipe.json").write_text(json.dumps({"command": made}))
    config = {"form": "auto", "overwrite": False, "save": str(place)}
    assert Saving("edit", config, ["eraser=leace", f"save={place}"]).save == place
    with pytest.raises(UserError, match="holds a checkpoint already"):
        Saving("edit", config, ["eraser=rlace", f"save={place}"])
