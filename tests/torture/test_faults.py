"""A killed, stopped, doubled or starved command leaves nothing half-written, and continues.

Continued, it ends with the bytes of an undisturbed run.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.torture.conftest import Whole
from tests.torture.runs import (
    SEED,
    STAGES,
    Started,
    Undisturbed,
    different,
    finish,
    require_whole,
    said_in_one_line,
    send_after,
)

pytestmark = pytest.mark.torture
KILLS = {"audit": 8, "sweep": 5, "debias": 6, "save": 6}
FULL = {"audit": 4, "sweep": 2, "debias": 2, "save": 2}
STOPS = {signal.SIGTERM: 143, signal.SIGINT: 130}
ROOM, PAGE = 2**30, 4096


def moments(times: Mapping[str, int], kind: str) -> list[tuple[str, float]]:
    """A command and a share of its run, spread so that each part of the run has its turn."""
    draw = random.Random(f"{SEED} {kind}")
    return [(c, (i + draw.random()) / n) for c, n in times.items() for i in range(n)]


def require_continued(command: str, folder: Path, whole: Undisturbed) -> None:
    require_whole(folder)
    finish(STAGES[command], folder)
    assert not different(folder, whole)


def require_tidy(folder: Path) -> None:
    assert not [path for path in folder.rglob("*") if path.suffix in (".tmp", ".partial")]


@pytest.mark.parametrize(("command", "share"), moments(KILLS, "time"))
def test_killed_at_some_time(command: str, share: float, whole: Whole, tmp_path: Path) -> None:
    process = Started(STAGES[command], tmp_path / "at")
    # The end of a run cannot be hit: the time it takes is not known to a tenth.
    alone = random.Random(share).random() < 0.5
    seconds = 0.85 * share * whole(command).seconds
    send_after(process, seconds, signal.SIGKILL, to_all=not alone)
    process.error()
    require_continued(command, tmp_path / "at", whole(command))


@pytest.mark.parametrize(("command", "share"), moments(KILLS, "operation"))
def test_killed_before_an_operation_on_a_file(
    command: str, share: float, whole: Whole, tmp_path: Path
) -> None:
    """Where a folder is half changed; these windows are too short for a clock."""
    operation = 1 + int(share * whole(command).operations)
    process = Started(STAGES[command], tmp_path / "at", kill_at=operation)
    process.error()
    assert process.returncode == -signal.SIGKILL
    require_continued(command, tmp_path / "at", whole(command))


@pytest.mark.parametrize("what", STOPS)
@pytest.mark.parametrize(("command", "share"), moments(dict.fromkeys(STAGES, 2), "signal"))
def test_stopped_by_a_signal(
    what: signal.Signals, command: str, share: float, whole: Whole, tmp_path: Path
) -> None:
    folder = tmp_path / "at"
    seconds = (0.1 + 0.8 * share) * whole(command).seconds
    process = Started(STAGES[command], folder)
    # A terminal signals all processes of a command.
    send_after(process, seconds, what, to_all=what == signal.SIGINT)
    error = process.error()
    assert process.returncode == STOPS[what], error[-3000:]
    assert "the same command continues the run" in said_in_one_line(error)
    require_tidy(folder)
    require_continued(command, folder, whole(command))


@pytest.mark.parametrize("apart", [0.0, 0.25])
@pytest.mark.parametrize("command", STAGES)
def test_two_at_once(command: str, apart: float, whole: Whole, tmp_path: Path) -> None:
    """One works, and the other refuses."""
    folder, seconds = tmp_path / "at", apart * whole(command).seconds
    first = Started(STAGES[command], folder)
    time.sleep(seconds)
    both = [first, Started(STAGES[command], folder)]
    ended = {process.error(): process.returncode for process in both}
    assert 0 in ended.values(), ended
    for error, code in ended.items():
        if code:
            assert code == 2, error[-3000:]
            assert "another process" in said_in_one_line(error)
    require_continued(command, folder, whole(command))


class Disk:
    """A file system in memory, whose size can be set.

    Without the right to mount one, as in a container, a limit for the length of single files.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        self.mounted = self._mount("size=1m") == 0

    def _mount(self, options: str) -> int:
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.place)]
        return subprocess.run(words, stderr=subprocess.DEVNULL).returncode

    def size(self, share: float, files: Undisturbed) -> int | None:
        """Leave room for a share of a run; the longest length of a file where that is all."""
        lengths = [len(content) for content in files.files.values()]
        if not self.mounted:
            return int(share * max(lengths))
        pages = sum(-(-length // PAGE) for length in lengths)
        assert self._mount(f"remount,size={PAGE * max(int(share * pages), 1)}") == 0
        return None

    def grow(self) -> None:
        if self.mounted:
            assert self._mount(f"remount,size={ROOM}") == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    yield made
    if made.mounted:
        subprocess.run(["umount", str(made.place)], check=True)


@pytest.mark.parametrize(("command", "share"), moments(FULL, "disk"))
def test_a_full_disk(command: str, share: float, disk: Disk, whole: Whole) -> None:
    most = disk.size(0.95 * share, whole(command))
    folder = disk.place / "at"
    process = Started(STAGES[command], folder, longest=most)
    error = process.error()
    assert process.returncode == 2, error[-3000:]
    assert "cannot write" in said_in_one_line(error)
    require_tidy(folder)
    disk.grow()
    require_continued(command, folder, whole(command))
