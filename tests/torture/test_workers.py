"""A worker of a launcher that the system kills is made good."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from countergen_edit.runs.files import RESULTS
from tests.cli.test_launchers import ROOT
from tests.torture.conftest import Whole
from tests.torture.runs import FEW, RUN, SEED, SMALL, contents, finish

pytestmark = pytest.mark.torture
SWEEP = ["sweep", *SMALL, FEW, "eraser=leace", "combine=2"]


def worker_of(process: psutil.Popen, seconds: float) -> psutil.Process | None:
    """One of the processes of joblib that work for another, within so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        for child in process.children(recursive=True):
            try:
                if "loky" in " ".join(child.cmdline()) and "popen_loky" in str(child.cmdline()):
                    return child
            except psutil.NoSuchProcess:
                continue
        time.sleep(0.005)
    return None


def started(words: list[str], folder: Path) -> psutil.Popen:
    return psutil.Popen(
        [sys.executable, "-m", "countergen_edit.cli.main", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("moment", range(3))
def test_a_lost_worker_of_a_launcher(moment: int, whole: Whole, tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", exc_type=ImportError)
    words = [SWEEP[0], "--multirun", *SWEEP[1:], "layers=[1],[2]", "launcher=joblib"]
    process = started(words, tmp_path)
    worker = worker_of(process, 120)
    assert worker is not None
    time.sleep(random.Random(f"{SEED} {moment}").uniform(0, 10))
    if process.poll() is None:
        worker.kill()
    process.communicate()
    finish([*SWEEP, "layers=[1,2]"], tmp_path)
    own, theirs = contents(tmp_path / RUN), whole("sweep").files
    assert own[RESULTS] == theirs[f"{RUN}/{RESULTS}"]
