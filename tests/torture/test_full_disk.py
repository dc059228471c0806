"""A disk full at ten moments: one line, nothing half-written, and the rest once there is room.

The disk is a small file system in memory, where one may be mounted; elsewhere, as in a container
without that right, no file may be longer than some bytes.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torture.conftest import Told, Whole
from tests.torture.runs import (
    SEED,
    STAGES,
    Started,
    Undisturbed,
    different,
    finish,
    require_whole,
    said_in_one_line,
    stage_of,
)

pytestmark = pytest.mark.torture
TIMES = {"audit": 4, "sweep": 2, "debias": 2, "save": 2}
ROOM = 2**30
PAGE = 4096


class Disk:
    """A file system of its own in a folder, whose size can be set; or a limit for single files."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        self.mounted = self._mount("size=1m") == 0

    def _mount(self, options: str) -> int:
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.place)]
        return subprocess.run(words, stderr=subprocess.DEVNULL).returncode

    def size(self, share: float, files: Undisturbed) -> int | None:
        """Leave room for a share of a run; the longest that a file may be, where that is all."""
        lengths = [len(content) for content in files.files.values()]
        if not self.mounted:
            return int(share * max(lengths))
        pages = sum(-(-length // PAGE) for length in lengths)
        assert self._mount(f"remount,size={PAGE * max(int(share * pages), 1)}") == 0
        return None

    def grow(self) -> None:
        """Make room for all."""
        if self.mounted:
            assert self._mount(f"remount,size={ROOM}") == 0

    def remove(self) -> None:
        """Give it back."""
        if self.mounted:
            subprocess.run(["umount", str(self.place)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    yield made
    made.remove()


def moments() -> list[tuple[str, float]]:
    draw = random.Random(SEED)
    return [(c, 0.95 * (i + draw.random()) / n) for c, n in TIMES.items() for i in range(n)]


@pytest.mark.parametrize(("command", "share"), moments())
def test_a_full_disk(command: str, share: float, disk: Disk, whole: Whole, tell: Told) -> None:
    most = disk.size(share, whole(command))
    folder = disk.place / "at"
    process = Started(STAGES[command], folder, longest=most)
    error = process.error()
    assert process.returncode == 2, error[-3000:]
    said = said_in_one_line(error)
    assert "cannot write" in said
    moment = stage_of(folder)
    require_whole(folder)
    assert not [path for path in folder.rglob("*") if path.suffix in (".tmp", ".partial")]
    disk.grow()
    finish(STAGES[command], folder)
    tell("disk full", command, moment, True, different(folder, whole(command)))
