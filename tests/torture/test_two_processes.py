"""Of two processes in one run folder one works, and the other says that it does."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.torture.conftest import Told, Whole
from tests.torture.runs import (
    SEED,
    STAGES,
    Started,
    different,
    finish,
    said_in_one_line,
)

pytestmark = pytest.mark.torture


def moments() -> list[tuple[str, float]]:
    draw = random.Random(SEED)
    return [(c, apart) for c in STAGES for apart in (0.0, draw.uniform(0.0, 0.5))]


@pytest.mark.parametrize(("command", "apart"), moments())
def test_two_at_once(command: str, apart: float, whole: Whole, tell: Told, tmp_path: Path) -> None:
    folder = tmp_path / "at"
    seconds = apart * whole(command).seconds
    first = Started(STAGES[command], folder)
    time.sleep(seconds)
    both = [first, Started(STAGES[command], folder)]
    ended = {process.error(): process.returncode for process in both}
    assert 0 in ended.values(), ended
    for error, code in ended.items():
        if code:
            assert code == 2, error[-3000:]
            assert "another process" in said_in_one_line(error)
    finish(STAGES[command], folder)
    moment = "at once" if apart == 0.0 else "one later"
    tell("two processes", command, moment, True, different(folder, whole(command)))
