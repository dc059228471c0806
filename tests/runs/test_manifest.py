"""A manifest says what the run depended on, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import countergen_edit
from countergen_edit.runs.manifest import git_commit, make_manifest

PARTS = {
    "config": {"seed": 0},
    "model": "m",
    "model_hash": "a",
    "data_hash": "b",
    "seed": 0,
    "command": ["audit"],
}


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_commit_is_that_of_the_packages_own_checkout_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "x")
    inside = tmp_path / "venv" / "countergen_edit"
    inside.mkdir(parents=True)
    monkeypatch.setattr(countergen_edit, "__file__", str(inside / "__init__.py"))
    assert git_commit() is None
    own = tmp_path / "countergen_edit"
    monkeypatch.setattr(countergen_edit, "__file__", str(own / "__init__.py"))
    assert git_commit() == git(tmp_path, "rev-parse", "HEAD")


@pytest.mark.parametrize("part", ["config", "model_hash", "data_hash", "seed"])
def test_the_fingerprint_covers_what_the_rows_depend_on(part: str) -> None:
    changed = PARTS | {part: {"seed": 1} if part == "config" else 1 if part == "seed" else "z"}
    assert make_manifest(**changed)["fingerprint"] != make_manifest(**PARTS)["fingerprint"]
