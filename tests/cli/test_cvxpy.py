"""What cvxpy solves runs from the command line, and agrees with what needs no solver."""

from __future__ import annotations

from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from countergen_edit.metrics.rows import Row
from countergen_edit.runs.folder import read_rows
from countergen_edit.runs.run import open_run

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = [
    "names={fit: 4, few: 4, agreement: 2, validation: 4, test: 4}",
    "data.fit=[{source: testbed, family: occupations}]",
    "data.validation=[{source: testbed, family: occupations}]",
    "data.test=[{source: testbed, family: occupations}]",
    "cost=agreement",
]


def audited(experiment: str, folder: Path) -> list[Row]:
    words = ["audit", f"experiment={experiment}", *SMALL, f"run_dir={folder}"]
    assert main(words) == 0
    return read_rows(folder / "results.jsonl")


def of(rows: list[Row], metric: str, split: str = "test") -> dict[str, float]:
    """Eraser → its value."""
    found = [r for r in rows if (r.metric, r.split) == (metric, split) and not r.baseline]
    return {r.eraser: r.value for r in found if r.value is not None and r.eraser}


def test_the_game_ends_where_the_closed_form_is(
    tmp_path: Path,
) -> None:
    rows = audited("rlace_cvxpy", tmp_path / "run")
    effect = of(rows, "mean_abs_r")
    assert set(effect) == {"rlace", "game", "cvxpy"}
    assert effect["game"] == pytest.approx(effect["rlace"], abs=1e-3)
    assert effect["cvxpy"] == pytest.approx(effect["rlace"], abs=1e-3)
    out = " ".join(open_run(tmp_path / "run").findings)
    assert "the published game has a closed form, the difference of the group means" in out
    remarked = [r for r in rows if r.detail.get("remark")]
    assert {r.eraser for r in remarked} == {"rlace"}


def test_what_may_move_a_little_is_another_map_of_the_same_rank(tmp_path: Path) -> None:
    rows = audited("preserving_within", tmp_path / "run")
    effect = of(rows, "mean_abs_r")
    assert set(effect) == {"preserving", "within"}
    assert effect["within"] != effect["preserving"]
    assert effect["within"] == pytest.approx(effect["preserving"], abs=0.2)
    assert len({r.rank for r in rows if r.eraser in effect}) == 1
