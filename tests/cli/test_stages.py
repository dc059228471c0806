"""Redirected output begins at once, and has a line for each stage."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from countergen_edit.core.stages import printed, stage
from tests.cli.support import ENVIRONMENT, sets

WORDS = ["eraser=mean_difference", "metric=[r]", "combine=1", "layers=[1]", *sets("traits")]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["debias", "sweep"])
def test_the_opening_comes_before_the_work(command: str) -> None:
    program = [sys.executable, "-m", "countergen_edit.cli.main", command, *WORDS, "run_dir=run"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert not Path("run/report.html").exists()
        assert process.poll() is None
        rest = process.stdout.read()
    assert first == f"  0:00 {command}: loading …\n"
    stages = ["unedited model: 1 unit", "candidates on validation data: 1 unit"]
    begun = [match.groups() for match in re.finditer(r"(?m)^ *(\d+):(\d\d) (.*)$", rest)]
    assert [text for *_, text in begun if text in stages] == stages
    seconds = [60 * int(minutes) + int(rest) for minutes, rest, _ in begun]
    assert seconds == sorted(seconds)


def test_a_function_call_prints_no_stage(capsys: pytest.CaptureFixture[str]) -> None:
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
    each: float,
    lines: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of the first of two portions of equal length."""
    from countergen_edit.models import progress

    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with printed():
        for _ in progress.track(range(50), "Scoring", (0.0, 0.5)):
            clock[0] += each
    found = [line.split(maxsplit=1)[1] for line in capsys.readouterr().out.splitlines()]
    told, used = zip(*(line.rsplit(", ", 1) for line in found), strict=True) if found else ((), ())
    assert [*told] == [f"Scoring: {done}%, about {left} min left" for done, left in lines]
    assert all(0.05 < float(one.removesuffix(" GiB in use")) < 64 for one in used)
