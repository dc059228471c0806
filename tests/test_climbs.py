"""Control flows down the rooms: a command calls experiments, these metrics, these models.

Where a lower room calls a higher one back (a callback, a hook into whoever called), a reader has to
climb. `test_rooms` keeps imports in order; this keeps calls in order.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import countergen_edit
from countergen_edit.cli.main import main
from countergen_edit.data.axis import SPLITS
from tests.test_rooms import LATE, ORDER, PACKAGE

pytestmark = pytest.mark.slow  # every test is of whole runs

MOST = 3
SETS = [f"data.{split}=[{{source:testbed,family:hobbies}}]" for split in SPLITS]
FEW = "names={fit: 8, few: 4, agreement: 2, validation: 4, test: 6}"
QUICK = ["eraser=leace", "metric=[r,paraphrases]", "edit.layers=[4]", FEW, *SETS]


@cache
def room(filename: str) -> str | None:
    """The room that code stands in; None for what is nobody's, such as `registry`."""
    path = Path(filename)
    if PACKAGE not in path.parents:
        return None
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return name if name in ORDER else None


class Climbs:
    """Calls from a room to one on its right, each place once; used as a profile function."""

    def __init__(self) -> None:
        self.edges: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        callee = room(frame.f_code.co_filename) if event == "call" else None
        if callee is None or frame.f_code.co_name == "<module>":
            return
        caller = frame.f_back
        while caller is not None and room(caller.f_code.co_filename) is None:
            caller = caller.f_back
        if caller is None:
            return
        above = room(caller.f_code.co_filename)
        assert above is not None
        place = Path(caller.f_code.co_filename).relative_to(PACKAGE).as_posix()
        if callee in LATE.get(place, ()):
            return
        if ORDER.index(callee) > ORDER.index(above):
            self.edges.add((_place(above, caller), _place(callee, frame)))


def _place(name: str, frame: FrameType) -> str:
    return f"{name}: {Path(frame.f_code.co_filename).name} {frame.f_code.co_qualname}"


def test_an_audit_climbs_back_to_a_higher_room_three_times_at_most(tmp_path: Path) -> None:
    assert countergen_edit.__file__
    climbs = Climbs()
    sys.setprofile(climbs)
    try:
        assert main(["audit", *QUICK, f"run_dir={tmp_path / 'run'}"]) == 0
    finally:
        sys.setprofile(None)
    assert len(climbs.edges) <= MOST, "\n".join(f"{a} -> {b}" for a, b in sorted(climbs.edges))
