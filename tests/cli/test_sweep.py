"""The sweep's command: its exit code tells of failed cells, and it takes over what jobs found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from countergen_edit.metrics.rows import SCHEMA, Row
from countergen_edit.runs.files import MANIFEST
from countergen_edit.runs.folder import RunFolder, parts_of, recorded_units
from tests.cli.support import call, names, said, sets

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = ["data=testbed", "data.keep=[]", *sets("questions"), names(8, 4, 6, 2, few=4)]


def test_a_failed_cell_is_named_and_the_exit_code_says_so() -> None:
    ended = call("sweep", *SMALL, "eraser=[rlace]", "ranks=[1,500]", "layers=[4]", "combine=1")
    assert ended.code == 1
    assert "1 cell(s) failed" in ended.err
    assert "Failed: rlace-500@resid_post.4: " in ended.words
    assert "rlace-1@resid_post.4 removes" in ended.words
    [folder] = Path("runs/sweep").iterdir()
    assert {p.suffix for p in (folder / "figures").iterdir()} == {".svg", ".png"}


def test_only_parts_of_the_same_model_data_and_code_are_taken_over(here: Path) -> None:
    for name, identity in (("same", "a"), ("other", "b")):
        manifest = {"schema": SCHEMA, "fingerprint": name, "tasks": {"gender": identity}}
        folder = RunFolder(here / "pool" / name, {}, manifest)
        folder.record(f"gender/cell/{name}", [Row("r", 0.5)])
        folder.record(f"race/cell/{name}", [Row("r", 0.5)])
        assert json.loads((folder.path / MANIFEST).read_text())["tasks"] == {"gender": identity}
    assert list(parts_of(here / "pool", {"gender": "a"})) == ["gender/cell/same"]
    assert parts_of(here / "nowhere", {"gender": "a"}) == {}


def test_jobs_of_multirun_join_to_the_bytes_of_one_run() -> None:
    small = [*SMALL, "eraser=[rlace,leace]", "combine=2"]
    said("sweep", "--multirun", *small, "layers=[3],[4]", "run_dir=run")
    assert not Path("run").exists()
    jobs = [*Path("run.parts").iterdir()]
    assert sorted(len(recorded_units(job)) for job in jobs) == [3, 3]  # unedited and two cells
    stamps = {p: p.stat().st_mtime_ns for p in Path("run.parts").rglob("results.jsonl")}
    for folder in ("run", "alone"):
        said("sweep", *small, "layers=[3,4]", f"run_dir={folder}")
    run, alone = Path("run"), Path("alone")
    assert (run / "results.jsonl").read_bytes() == (alone / "results.jsonl").read_bytes()
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps
    edits = [sorted(p.name for p in (folder / "edits").iterdir()) for folder in (run, alone)]
    assert edits[0] == edits[1]
