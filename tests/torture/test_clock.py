"""A wall clock that jumps by years, forth and back, is in no byte that a run leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.conftest import Told, Whole
from tests.torture.runs import SEED, STAGES, different, finish

pytestmark = pytest.mark.torture


@pytest.mark.parametrize("command", STAGES)
def test_a_clock_that_jumps(command: str, whole: Whole, tell: Told, tmp_path: Path) -> None:
    finish(STAGES[command], tmp_path / "at", clock=SEED)
    tell("clock jumps", command, "all along", True, different(tmp_path / "at", whole(command)))
