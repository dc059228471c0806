"""The tortured commands, and the comparison of all their files, byte by byte."""

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
from countergen_edit.runs.files import EDITS
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
        "metric.fairpair.n=4", "metric.fairpair.occupations=1", "+metric.fairpair.permutations=50",
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
    """A command in a process group of its own, forked from a server that imported the package."""

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
        """Its errors, once it has ended."""
        self._process.join()
        return self._error.read_text("utf-8") if self._error.exists() else ""


_NUMBERS = count()


def finish(words: list[str], folder: Path, **fault: Any) -> None:
    """Run a command to its end, which must be a good one."""
    process = Started(words, folder, **fault)
    said = process.error()
    assert process.returncode == 0, said[-3000:]


def said_in_one_line(error: str) -> str:
    """The last line of a process's errors, without a traceback."""
    assert "Traceback" not in error, error[-3000:]
    last = error.strip().splitlines()[-1]
    assert last.startswith("countergen-edit: "), error[-3000:]
    return last


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@dataclass(frozen=True)
class Undisturbed:
    """A run without faults."""

    files: Mapping[str, bytes]
    seconds: float
    """Processor time, with that of child processes."""
    operations: int
    """Number of changes of its folder."""


def undisturbed(command: str, folder: Path) -> Undisturbed:
    """Run a command without faults."""
    operations = folder.with_name(f"{folder.name}.operations")
    process = Started(STAGES[command], folder, count=str(operations))
    seconds = 0.0
    while process.returncode is None:
        seconds = max(seconds, seconds_of(process))
        time.sleep(0.02)
    assert process.returncode == 0, process.error()[-3000:]
    return Undisturbed(contents(folder), seconds, int(operations.read_text()))


def seconds_of(process: Started) -> float:
    """Processor time of a process and its children; 0 if it has ended."""
    try:
        own = psutil.Process(process.pid)
        times = [p.cpu_times() for p in (own, *own.children(recursive=True))]
    except psutil.NoSuchProcess:
        return 0.0
    ended = times[0].children_user + times[0].children_system
    return float(ended + sum(t.user + t.system for t in times))


def send_after(process: Started, seconds: float, what: signal.Signals, to_all: bool) -> None:
    """Send a signal once the process has used so much processor time; perhaps to its children."""
    while seconds_of(process) < max(seconds, 0.05):
        assert process.returncode is None, f"it ended before: {process.error()[-3000:]}"
        time.sleep(0.005)
    (os.killpg if to_all else os.kill)(process.pid, what)


def different(folder: Path, whole: Undisturbed) -> list[str]:
    """The files that differ from those of the undisturbed run."""
    own, theirs = contents(folder), whole.files
    return sorted(name for name in own.keys() | theirs.keys() if own.get(name) != theirs.get(name))


def require_whole(folder: Path) -> None:
    """Require that every file under its final name is whole: edits and checkpoints load."""
    for edit in (folder / RUN / EDITS).glob("*"):
        if edit.suffix != ".tmp":
            NamedEdit.load(edit)
    for place in (folder / SAVED, folder / RUN / "checkpoint"):
        if place.exists():
            open_checkpoint(place)
    page = folder / RUN / REPORT
    if page.exists():
        assert page.read_text("utf-8").rstrip().endswith("</html>")
