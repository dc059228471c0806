"""Killed by the system at fifty moments, each command goes on to the bytes of an undisturbed run.

Half of the moments are drawn from the processor time of the run. Half are drawn from the operations
on its files, and lie just before one of them, where a folder is half changed: these windows are too
short for a clock to hit.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.torture.conftest import Told, Whole
from tests.torture.runs import (
    SEED,
    STAGES,
    Started,
    different,
    finish,
    require_whole,
    send_after,
    stage_of,
)

pytestmark = pytest.mark.torture
TIMES = {"audit": 8, "sweep": 5, "debias": 6, "save": 6}
"""Moments of either kind."""


def moments(kind: str) -> list[tuple[str, float]]:
    """A command and a share of its run, spread so that each part of the run has its turn."""
    draw = random.Random(f"{SEED} {kind}")
    return [(c, (i + draw.random()) / n) for c, n in TIMES.items() for i in range(n)]


@pytest.mark.parametrize(("command", "share"), moments("time"))
def test_killed_at_some_time(
    command: str, share: float, whole: Whole, tell: Told, tmp_path: Path
) -> None:
    undisturbed = whole(command)
    process = Started(STAGES[command], tmp_path / "at")
    # The end of a run cannot be hit: how long a run takes is not known to a tenth.
    alone = random.Random(share).random() < 0.5
    send_after(process, 0.85 * share * undisturbed.seconds, signal.SIGKILL, to_all=not alone)
    process.error()
    require_continued(command, tmp_path / "at", whole, tell, "killed at a time")


@pytest.mark.parametrize(("command", "share"), moments("operation"))
def test_killed_before_some_operation(
    command: str, share: float, whole: Whole, tell: Told, tmp_path: Path
) -> None:
    operation = 1 + int(share * whole(command).operations)
    process = Started(STAGES[command], tmp_path / "at", kill_at=operation)
    process.error()
    assert process.returncode == -signal.SIGKILL
    require_continued(command, tmp_path / "at", whole, tell, "killed at an operation")


def require_continued(command: str, folder: Path, whole: Whole, tell: Told, fault: str) -> None:
    """The same command ends as if nothing had been."""
    moment = stage_of(folder)
    require_whole(folder)
    finish(STAGES[command], folder)
    tell(fault, command, moment, True, different(folder, whole(command)))
