"""The sweep's command: its exit code tells of failed cells, and it takes over what jobs found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from countergen_edit.metrics.rows import SCHEMA, Row
from countergen_edit.runs.files import MANIFEST
from countergen_edit.runs.folder import RunFolder, parts_of, recorded_units

pytestmark = pytest.mark.slow  # every test is of whole runs


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_failed_cell_is_named_and_the_exit_code_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["sweep", "data=testbed", "eraser=[rlace]", "ranks=[1,500]", "layers=[4]", "combine=1"]
    one = "[{source: testbed, family: questions}]"
    words += [f"data.{split}={one}" for split in ("fit", "validation", "test")]
    words += ["names={fit: 8, few: 4, agreement: 2, validation: 4, test: 6}"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "data.keep=[]"])
    assert stop.value.code == 1
    out, err = capsys.readouterr()
    assert "1 cell(s) failed" in err
    assert "Failed: rlace-500@resid_post.4: " in " ".join(out.split())
    assert "rlace-1@resid_post.4 removes" in " ".join(out.split())
    [folder] = Path("runs/sweep").iterdir()
    assert {p.suffix for p in (folder / "figures").iterdir()} == {".svg", ".png"}


def test_only_parts_of_the_same_model_data_and_code_are_taken_over(tmp_path: Path) -> None:
    for name, identity in (("same", "a"), ("other", "b")):
        manifest = {"schema": SCHEMA, "fingerprint": name, "tasks": {"gender": identity}}
        folder = RunFolder(tmp_path / "pool" / name, {}, manifest)
        folder.record(f"gender/cell/{name}", [Row("r", 0.5)])
        folder.record(f"race/cell/{name}", [Row("r", 0.5)])
        assert json.loads((folder.path / MANIFEST).read_text())["tasks"] == {"gender": identity}
    assert list(parts_of(tmp_path / "pool", {"gender": "a"})) == ["gender/cell/same"]
    assert parts_of(tmp_path / "nowhere", {"gender": "a"}) == {}


def test_jobs_of_multirun_join_to_the_bytes_of_one_run() -> None:
    one = "[{source: testbed, family: questions}]"
    small = ["data=testbed", "data.keep=[]", "eraser=[rlace,leace]", "combine=2"]
    small += [f"data.{split}={one}" for split in ("fit", "validation", "test")]
    small += ["names={fit: 8, few: 4, agreement: 2, validation: 4, test: 6}"]
    assert main(["sweep", "--multirun", *small, "layers=[3],[4]", "run_dir=run"]) == 0
    assert not Path("run").exists()
    jobs = [*Path("run.parts").iterdir()]
    assert sorted(len(recorded_units(job)) for job in jobs) == [3, 3]  # unedited and two cells
    stamps = {p: p.stat().st_mtime_ns for p in Path("run.parts").rglob("results.jsonl")}
    for folder in ("run", "alone"):
        assert main(["sweep", *small, "layers=[3,4]", f"run_dir={folder}"]) == 0
    joined, alone = (Path(folder, "results.jsonl").read_bytes() for folder in ("run", "alone"))
    assert joined == alone
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps
    edits = {
        folder: sorted(p.name for p in Path(folder, "edits").iterdir())
        for folder in ("run", "alone")
    }
    assert edits["run"] == edits["alone"]
