"""The runs that are tortured, as commands; what they leave, and what of it must be equal.

All is compared byte by byte: rows, edits, single texts, figures, the page, the saved model. Nothing
may differ, and nothing may lie there that an undisturbed run did not leave.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

from countergen_edit.edits import NamedEdit
from countergen_edit.edits.checkpoints import open_checkpoint
from countergen_edit.runs.folder import EDITS, MANIFEST, PROGRESS, recorded_units
from tests.torture import faults

SEED = 20
RUN, SAVED, REPORT = "run", "saved", "report.html"
ONE = "[{source: testbed, family: questions}]"
SMALL = (
    "data=testbed", "data.keep=[]", f"run_dir={RUN}",
    *(f"data.{split}={ONE}" for split in ("fit", "validation", "test")),
)  # fmt: skip
FEW = "names={fit: 6, few: 2, agreement: 2, validation: 4, test: 4}"
STAGES: dict[str, list[str]] = {
    "audit": [
        "audit", *SMALL, FEW, "eraser=leace", "edit.layers=[2]",
        "metric.fairpair.n=4", "metric.fairpair.occupations=1", "metric.fairpair.permutations=50",
        "metric.cid.names=1", "metric.cid.max_new_tokens=4", "metric.cid.strengths=[0,10]",
    ],
    "sweep": ["sweep", *SMALL, FEW, "eraser=leace", "layers=[1,2]", "combine=2"],
    "debias": [
        "debias", *SMALL, "eraser=mean_difference", "layers=[0]", "metric=r", "combine=1",
        *(f"cost.{cost}.budget=100" for cost in ("agreement", "perplexity", "kl")),
    "cost.legitimate_differences.budget=100",
    ],
    "save": ["edit", *SMALL, FEW, "eraser=leace", "edit.layers=[2]", "metric=r", f"save={SAVED}"],
}  # fmt: skip
"""An audit by all metrics, a sweep, a debiasing, and an edit that is saved."""


# One thread, as the number of threads decides how sums are rounded; no test may reach for a hub.
os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
SERVER = get_context("forkserver")
LOADED = ["matplotlib.pyplot", *(f"countergen_edit.cli.{c}" for c in ("audit", "sweep", "debias"))]
SERVER.set_forkserver_preload(LOADED)


class Started:
    """A command that runs in a process of its own, which leads a group of processes.

    It comes from a server that has imported the package, which takes half of a small run's time.
    """

    def __init__(self, words: list[str], folder: Path, **fault: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._error = folder.with_name(f"{folder.name}.{next(_NUMBERS)}.stderr")
        about = {"below": str(folder), **fault}
        self._process = SERVER.Process(target=faults.begin, args=(words, about, str(self._error)))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the number of the signal that killed it."""
        return self._process.exitcode

    def error(self) -> str:
        """What it said, once it has ended."""
        self._process.join()
        return self._error.read_text("utf-8") if self._error.exists() else ""


_NUMBERS = count()


def finish(words: list[str], folder: Path, **fault: Any) -> None:
    """Run a command to its end, which must be a good one."""
    process = Started(words, folder, **fault)
    said = process.error()
    assert process.returncode == 0, said[-3000:]


def said_in_one_line(error: str) -> str:
    """What a process said in the end, which must be no trace of calls."""
    assert "Traceback" not in error, error[-3000:]
    last = error.strip().splitlines()[-1]
    assert last.startswith("countergen-edit: "), error[-3000:]
    return last


def contents(folder: Path) -> dict[str, bytes]:
    """All that lies in a folder, by its path; lock files are empty, and stay."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing happened to."""

    files: Mapping[str, bytes]
    seconds: float
    """Processor time, that of the processes that it started included."""
    operations: int
    """How many times it changed something in its folder."""


def undisturbed(command: str, folder: Path) -> Undisturbed:
    """Run a command as if there were no faults in the world."""
    operations = folder.with_name(f"{folder.name}.operations")
    process = Started(STAGES[command], folder, count=str(operations))
    seconds = 0.0
    while process.returncode is None:
        seconds = max(seconds, seconds_of(process))
        time.sleep(0.02)
    assert process.returncode == 0, process.error()[-3000:]
    return Undisturbed(contents(folder), seconds, int(operations.read_text()))


def seconds_of(process: Started) -> float:
    """Processor time of a process and of those that it started; 0 of one that has ended.

    It tells how far a run is whatever else the machine does meanwhile.
    """
    try:
        own = psutil.Process(process.pid)
        times = [p.cpu_times() for p in (own, *own.children(recursive=True))]
    except psutil.NoSuchProcess:
        return 0.0
    ended = times[0].children_user + times[0].children_system
    return float(ended + sum(t.user + t.system for t in times))


def send_after(process: Started, seconds: float, what: signal.Signals, to_all: bool) -> None:
    """Send a signal once the process has worked so long; to those that it started too, or not."""
    while seconds_of(process) < max(seconds, 0.05):
        assert process.returncode is None, f"it ended before: {process.error()[-3000:]}"
        time.sleep(0.005)
    (os.killpg if to_all else os.kill)(process.pid, what)


def different(folder: Path, whole: Undisturbed) -> list[str]:
    """The files that are not those of the undisturbed run, byte by byte."""
    own, theirs = contents(folder), whole.files
    return sorted(name for name in own.keys() | theirs.keys() if own.get(name) != theirs.get(name))


def stage_of(folder: Path) -> str:
    """How far a run came, by what it left."""
    run = folder / RUN
    checkpoints = (folder / SAVED, run / "checkpoint")
    if (run / REPORT).is_file():
        return "report written"
    if any(place.is_dir() for place in checkpoints):
        return "model saved"
    if any((place.parent / f".{place.name}.partial").is_dir() for place in checkpoints):
        return "saving"
    if not (run / MANIFEST).is_file():
        return "before the run"
    if not (run / PROGRESS).is_file() or not recorded_units(run):
        return "first unit"
    return "later units"


def require_whole(folder: Path) -> None:
    """Whatever bears its final name is whole: each edit loads, each checkpoint is proven."""
    for edit in (folder / RUN / EDITS).glob("*"):
        if edit.suffix != ".tmp":
            NamedEdit.load(edit)
    for place in (folder / SAVED, folder / RUN / "checkpoint"):
        if place.exists():
            open_checkpoint(place)
    page = folder / RUN / REPORT
    if page.exists():
        assert page.read_text("utf-8").rstrip().endswith("</html>")
