"""A sweep that a launcher shares out to processes joins to the bytes of one process.

Each test needs its launcher's extra and is skipped without it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import countergen_edit
from countergen_edit.cli.main import main
from countergen_edit.runs.files import PROGRESS, RESULTS
from countergen_edit.runs.folder import recorded_units

pytestmark = pytest.mark.slow  # every test is of whole runs

ROOT = Path(countergen_edit.__file__).parent.parent
ONE = "[{source: testbed, family: questions}]"
SMALL = [
    "data=testbed", "data.keep=[]", "eraser=[mean_difference,leace]", "combine=1",
    "metric=r", "cost=agreement", "names={fit: 4, few: 4, agreement: 2, validation: 4, test: 2}",
    *(f"data.{split}={ONE}" for split in ("fit", "validation", "test")),
]  # fmt: skip
LAYERS = (0, 1, 2)
JOBS = "layers=[0],[1],[2]"
CANDIDATES = 6
LAUNCHERS = {
    "joblib": ("hydra_plugins.hydra_joblib_launcher", []),
    "submitit_local": ("hydra_plugins.hydra_submitit_launcher", []),
    "ray": ("hydra_plugins.hydra_ray_launcher", ["+hydra.launcher.ray.init.num_cpus=2"]),
}


def multirun(*words: str) -> list[str]:
    program = [sys.executable, "-m", "countergen_edit.cli.main"]
    return [*program, "sweep", "--multirun", *SMALL, *words]


def telling(pids: Path) -> str:
    """The setting by which jobs tell what processes they ran in."""
    return f"+hydra.callbacks.who={{_target_: tests.cli.job_pids.RecordPid, folder: {pids}}}"


def environment() -> dict[str, str]:
    """That of this process, with the tests in reach of the jobs.

    All have one thread: the number of threads decides how sums are split, and so rounded.
    """
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def launched(folder: Path, *words: str) -> set[int]:
    """Run a sweep with `--multirun`; the processes that its jobs ran in."""
    pids = folder / "pids"
    pids.mkdir()
    done = subprocess.run(
        multirun(telling(pids), *words),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {int(path.name) for path in pids.iterdir()}


def joined(folder: Path) -> bytes:
    """The rows of the run that takes over what jobs found."""
    with contextlib.chdir(folder):
        assert main(["sweep", *SMALL, f"layers={list(LAYERS)}", "run_dir=run"]) == 0
    return (folder / "run" / RESULTS).read_bytes()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The rows of one process."""
    return joined(tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("name", LAUNCHERS)
def test_jobs_of_several_processes_join_to_the_bytes_of_one(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    plugin, words = LAUNCHERS[name]
    pytest.importorskip(plugin, exc_type=ImportError)
    pids = launched(tmp_path, JOBS, f"launcher={name}", "run_dir=run", *words)
    assert len(pids) >= 2
    assert os.getpid() not in pids
    parts = [recorded_units(part) for part in (tmp_path / "run.parts").iterdir()]
    assert sorted(len(part) for part in parts) == [3, 3, 3]  # unedited and two cells
    assert joined(tmp_path) == request.getfixturevalue("alone")


# What happened is not passed over: joblib ends, and Ray runs the job of a dead worker again.
@pytest.mark.parametrize(("name", "fails"), [("joblib", True), ("ray", False)])
def test_a_worker_killed_by_the_system_is_made_good(
    name: str, fails: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    plugin, more = LAUNCHERS[name]
    pytest.importorskip(plugin, exc_type=ImportError)
    pids = tmp_path / "pids"
    pids.mkdir()
    words = [JOBS, f"launcher={name}", "run_dir=run", *more]
    started = subprocess.Popen(
        multirun(telling(pids), *words),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    pool = tmp_path / "run.parts"
    until = time.monotonic() + 600
    while not any(path.stat().st_size for path in pool.glob(f"*/{PROGRESS}")):
        assert started.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(int(next(pids.iterdir()).name), signal.SIGKILL)
    assert (started.wait(timeout=600) != 0) == fails
    units = [unit for part in pool.iterdir() for unit in recorded_units(part)]
    cells = [unit for unit in units if "/candidate/" in unit]
    assert (len(cells) < CANDIDATES) == fails
    assert len(cells) == len({*cells})
    again = subprocess.run(multirun(*words), cwd=tmp_path, env=environment())
    assert again.returncode == 0
    assert joined(tmp_path) == request.getfixturevalue("alone")
