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

from countergen_edit.runs.files import PROGRESS, RESULTS
from countergen_edit.runs.folder import recorded_units
from tests.cli.support import ENVIRONMENT, names, said, sets

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = ["data=testbed", "data.keep=[]", "eraser=[mean_difference,leace]", "combine=1"]
SMALL += ["metric=r", "cost=agreement", names(4, 4, 2, 2, few=4), *sets("questions")]
JOBS = "layers=[0],[1],[2]"
CANDIDATES = 6
LAUNCHERS = {
    "joblib": ("hydra_plugins.hydra_joblib_launcher", []),
    "submitit_local": ("hydra_plugins.hydra_submitit_launcher", []),
    "ray": ("hydra_plugins.hydra_ray_launcher", ["+hydra.launcher.ray.init.num_cpus=2"]),
}


def started(pids: Path, *words: str) -> subprocess.Popen[str]:
    """A sweep with `--multirun` in this folder, whose jobs tell what processes they ran in."""
    pids.mkdir(exist_ok=True)
    who = f"+hydra.callbacks.who={{_target_: tests.cli.job_pids.RecordPid, folder: {pids}}}"
    program = [sys.executable, "-m", "countergen_edit.cli.main", "sweep", "--multirun"]
    pipe = subprocess.DEVNULL
    return subprocess.Popen(
        [*program, *SMALL, who, JOBS, "run_dir=run", *words],
        env=ENVIRONMENT,
        stdout=pipe,
        stderr=pipe,
        text=True,
    )


def joined(folder: Path) -> bytes:
    """The rows of the run that takes over what jobs found."""
    with contextlib.chdir(folder):
        said("sweep", *SMALL, "layers=[0,1,2]", "run_dir=run")
    return (folder / "run" / RESULTS).read_bytes()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The rows of one process."""
    return joined(tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("name", LAUNCHERS)
def test_jobs_of_several_processes_join_to_the_bytes_of_one(
    name: str, request: pytest.FixtureRequest, here: Path
) -> None:
    plugin, words = LAUNCHERS[name]
    pytest.importorskip(plugin, exc_type=ImportError)
    assert started(here / "pids", f"launcher={name}", *words).wait() == 0
    pids = {int(path.name) for path in (here / "pids").iterdir()}
    assert len(pids) >= 2
    assert os.getpid() not in pids
    parts = [recorded_units(part) for part in (here / "run.parts").iterdir()]
    assert sorted(len(part) for part in parts) == [3, 3, 3]  # unedited and two cells
    assert joined(here) == request.getfixturevalue("alone")


# What happened is not passed over: joblib ends, and Ray runs the job of a dead worker again.
@pytest.mark.parametrize(("name", "fails"), [("joblib", True), ("ray", False)])
def test_a_worker_killed_by_the_system_is_made_good(
    name: str, fails: bool, request: pytest.FixtureRequest, here: Path
) -> None:
    plugin, more = LAUNCHERS[name]
    pytest.importorskip(plugin, exc_type=ImportError)
    pids, pool, words = here / "pids", here / "run.parts", [f"launcher={name}", *more]
    process = started(pids, *words)
    until = time.monotonic() + 600
    while not any(path.stat().st_size for path in pool.glob(f"*/{PROGRESS}")):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    os.kill(int(next(pids.iterdir()).name), signal.SIGKILL)
    assert (process.wait(timeout=600) != 0) == fails
    units = [unit for part in pool.iterdir() for unit in recorded_units(part)]
    cells = [unit for unit in units if "/candidate/" in unit]
    assert (len(cells) < CANDIDATES) == fails
    assert len(cells) == len({*cells})
    assert started(pids, *words).wait() == 0
    assert joined(here) == request.getfixturevalue("alone")
