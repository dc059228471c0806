"""A run that was killed anywhere ends with the rows of one that was not."""

import fcntl
import json
import subprocess
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

import countergen_edit
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import LOCK
from countergen_edit.metrics.rows import COLUMNS, Row
from countergen_edit.runs import folder as folders
from countergen_edit.runs import ran
from countergen_edit.runs.files import EDITS, MANIFEST, PROGRESS, RESULTS
from countergen_edit.runs.folder import RunFolder, recorded_units
from countergen_edit.runs.manifest import git_commit, make_manifest
from tests.runs.runs import IDENTITY

CONFIG = {"seed": 0}
UNITS = {
    "one": [Row("r", 0.1, dataset="é")],
    "two": [Row("r", 0.2), Row("kl", None, detail={"reason": "a\u2028b\x85c\nd"})],
    "three": [Row("r", 0.3)],
}
VALUES = {unit: [row.value for row in rows] for unit, rows in UNITS.items()}


def run(path, stop_after=99):
    folder = RunFolder(path, CONFIG, IDENTITY)
    for unit, rows in list(UNITS.items())[:stop_after]:
        if not folder.done(unit):
            folder.record(unit, rows)
    return folder


def test_rows_come_back_as_they_were_recorded_with_their_unit(tmp_path):
    rows = run(tmp_path / "run").rows()
    expected = [(unit, value) for unit, values in VALUES.items() for value in values]
    assert [(row.unit, row.value) for row in rows] == expected
    assert rows[2].detail == {"reason": "a\u2028b\x85c\nd"}
    line = json.loads((tmp_path / "run" / RESULTS).read_text().split("\n")[0])
    assert tuple(line) == COLUMNS
    assert json.dumps(Row.from_dict(line).to_dict()) == json.dumps(line)


@pytest.fixture
def clock(monkeypatch):
    """Half a minute passes whenever somebody looks."""
    at = datetime(2026, 11, 24, 8, tzinfo=UTC)

    def later():
        nonlocal at
        at += timedelta(seconds=30)
        return at

    monkeypatch.setattr(folders, "now", later)
    monkeypatch.setattr(ran, "now", later)


def ran_of(path):
    return json.loads((path / MANIFEST).read_text())["ran"]


@pytest.mark.usefixtures("clock")
def test_the_manifest_says_when_and_how_long_over_all_sessions(tmp_path, monkeypatch):
    path = tmp_path / "run"
    monkeypatch.setattr(ran, "hardware", partial(str, "one"))
    run(path, stop_after=1).close()  # begins at 8:00:30, its unit ends at 8:01:00
    monkeypatch.setattr(ran, "hardware", partial(str, "other"))
    run(path).close()  # begins at 8:01:30, its units end at 8:02:00 and 8:02:30
    first = ran_of(path)
    run(path).close()  # nothing is left to do
    assert ran_of(path) == first
    assert first["begin"] == "2026-11-24T08:00:30+00:00"
    assert first["end"] == "2026-11-24T08:02:30+00:00"
    assert first["seconds"] == 90
    assert first["hardware"] == ["one", "other"]
    assert ran.in_words(json.loads((path / MANIFEST).read_text())).endswith("on one and other")


def test_killing_at_any_byte_and_starting_again_gives_the_undisturbed_rows(tmp_path):
    whole, manifests = tmp_path / "whole", []
    for units in range(len(UNITS) + 1):
        manifests.append((run(whole, stop_after=units).path / MANIFEST).read_bytes())
    results, progress = ((whole / name).read_bytes() for name in (RESULTS, PROGRESS))
    assert recorded_units(tmp_path / "nowhere") == {}
    recorded = [json.loads(line)["end"] for line in progress.splitlines()]
    ends = [0, *(i + 1 for i, byte in enumerate(progress) if byte == ord("\n"))]
    for cut in range(0, len(results) + 1, 29):
        # What the disk may hold when `cut` bytes of results are written: the units that were
        # recorded before, and perhaps half of the next record.
        # The manifest knows of a unit that is written, whether it is recorded or not.
        finished = sum(end <= cut for end in recorded)
        for recorded_of, extra in ((finished, 0), (finished, 5), (max(finished - 1, 0), 0)):
            path = tmp_path / f"cut{cut}-{recorded_of}-{extra}"
            run(path, stop_after=0)
            (path / MANIFEST).write_bytes(manifests[finished])
            (path / RESULTS).write_bytes(results[:cut])
            (path / PROGRESS).write_bytes(progress[: ends[recorded_of] + extra])
            values = {unit: [r.value for r in rows] for unit, rows in recorded_units(path).items()}
            assert values == dict([*VALUES.items()][:recorded_of])
            run(path)
            assert (path / RESULTS).read_bytes() == results
            assert (path / PROGRESS).read_bytes() == progress


def test_what_a_loss_of_power_took_from_the_manifest_is_run_again(tmp_path):
    before = (run(tmp_path / "run", stop_after=1).path / MANIFEST).read_bytes()
    results = (run(tmp_path / "run").path / RESULTS).read_bytes()
    (tmp_path / "run" / MANIFEST).write_bytes(before)
    assert [*recorded_units(tmp_path / "run")] == ["one"]
    assert (run(tmp_path / "run").path / RESULTS).read_bytes() == results
    assert [*recorded_units(tmp_path / "run")] == [*UNITS]


def test_changed_rows_are_not_continued(tmp_path):
    results = run(tmp_path / "run", stop_after=2).path / RESULTS
    results.write_text(results.read_text().replace("0.1", "0.9"))
    with pytest.raises(UserError, match="was cut off or changed"):
        run(tmp_path / "run")


def test_the_folder_of_another_run_is_refused_and_untouched(tmp_path):
    run(tmp_path / "run")
    before = (tmp_path / "run" / RESULTS).read_bytes()
    with pytest.raises(UserError, match="belongs to another run"):
        RunFolder(tmp_path / "run", CONFIG, IDENTITY | {"fingerprint": "b" * 64})
    assert (tmp_path / "run" / RESULTS).read_bytes() == before


def test_a_run_that_another_process_has_open_is_refused_and_untouched(tmp_path):
    path = tmp_path / "run"
    run(path, stop_after=1).close()
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with (path / LOCK).open() as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)  # another open file is as good as another process
        with pytest.raises(UserError, match=f"another process is writing to {path}"):
            run(path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert len(run(path).rows()) == 4


def test_nan_never_enters_the_results(tmp_path):
    folder = RunFolder(tmp_path / "run", CONFIG, IDENTITY)
    with pytest.raises(ValueError, match="JSON"):
        folder.record("bad", [Row("r", float("nan"))])
    assert folder.rows() == []


def test_what_a_kill_left_while_an_edit_was_replaced_is_made_good(tmp_path):
    run(tmp_path / "run")
    edits = tmp_path / "run" / EDITS
    for name in ("both", "both.old.tmp", "lost.old.tmp", "half.tmp"):
        (edits / name).mkdir(parents=True)
        (edits / name / "edit.json").write_text(name)
    run(tmp_path / "run")
    left = {path.name: (path / "edit.json").read_text() for path in edits.iterdir()}
    assert left == {"both": "both", "lost": "lost.old.tmp"}


HASHES = {"model_hash": "a", "data_hash": "b"}
PARTS = {"config": {"seed": 0}, "model": "m", "seed": 0, "command": ["audit"], **HASHES}


def git(folder, *words):
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.check_output(["git", *who, *words], cwd=folder, text=True).strip()


def test_the_commit_is_that_of_the_packages_own_checkout_alone(tmp_path, monkeypatch):
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "x")
    (tmp_path / "venv/countergen_edit").mkdir(parents=True)
    head = git(tmp_path, "rev-parse", "HEAD")
    for folder, commit in (("venv/countergen_edit", None), ("countergen_edit", head)):
        monkeypatch.setattr(countergen_edit, "__file__", str(tmp_path / folder / "__init__.py"))
        assert git_commit() == commit


@pytest.mark.parametrize("part", ["config", "model_hash", "data_hash", "seed"])
def test_the_fingerprint_covers_what_the_rows_depend_on(part):
    changed = PARTS | {part: {"config": {"seed": 1}, "seed": 1}.get(part, "z")}
    assert make_manifest(**changed)["fingerprint"] != make_manifest(**PARTS)["fingerprint"]
