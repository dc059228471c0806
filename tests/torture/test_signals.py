"""Asked to stop, a command says so in one line, leaves nothing half-written, and can go on."""

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
    said_in_one_line,
    send_after,
    stage_of,
)

pytestmark = pytest.mark.torture
ASKED = {signal.SIGTERM: 143, signal.SIGINT: 130}


def moments() -> list[tuple[signal.Signals, str, float]]:
    draw = random.Random(SEED)
    return [(s, c, draw.uniform(0.1, 0.9)) for s in ASKED for c in STAGES for _ in range(2)]


@pytest.mark.parametrize(("what", "command", "share"), moments())
def test_asked_to_stop(
    what: signal.Signals, command: str, share: float, whole: Whole, tell: Told, tmp_path: Path
) -> None:
    folder = tmp_path / "at"
    moment = share * whole(command).seconds
    process = Started(STAGES[command], folder)
    # A terminal asks all processes of a command, whoever else knows of one only.
    send_after(process, moment, what, to_all=what == signal.SIGINT)
    error = process.error()
    assert process.returncode == ASKED[what], error[-3000:]
    assert "the same command continues the run" in said_in_one_line(error)
    stage = stage_of(folder)
    require_whole(folder)
    assert not [path for path in folder.rglob("*") if path.suffix in (".tmp", ".partial")]
    finish(STAGES[command], folder)
    tell(what.name, command, stage, True, different(folder, whole(command)))
