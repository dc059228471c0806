"""What cvxpy solves runs from the command line, and agrees with what needs no solver."""

from __future__ import annotations

import pytest

from countergen_edit.metrics.rows import Row
from countergen_edit.runs.run import open_run
from tests.cli.support import names, rows_of, said, sets

pytestmark = pytest.mark.slow  # every test is of whole runs


def audited(experiment: str) -> list[Row]:
    """The rows of edits on test data."""
    small = [names(4, 4, 4, 2, few=4), *sets("occupations"), "cost=agreement"]
    said("audit", f"experiment={experiment}", *small, "run_dir=run")
    return [row for row in rows_of("run", split="test", baseline=False) if row.eraser]


def effects(rows: list[Row]) -> dict[str, float | None]:
    return {row.eraser: row.value for row in rows if row.metric == "mean_abs_r"}


def test_the_game_ends_where_the_closed_form_is() -> None:
    effect = effects(audited("rlace_cvxpy"))
    assert set(effect) == {"rlace", "game", "cvxpy"}
    assert effect["game"] == pytest.approx(effect["rlace"], abs=1e-3)
    assert effect["cvxpy"] == pytest.approx(effect["rlace"], abs=1e-3)
    findings = " ".join(open_run("run").findings)
    text = "the published game has a closed form, the difference of the group means"
    assert text in findings
    assert {row.eraser for row in rows_of("run") if row.detail.get("remark")} == {"rlace"}


def test_what_may_move_a_little_is_another_map_of_the_same_rank() -> None:
    effect = effects(rows := audited("preserving_within"))
    assert set(effect) == {"preserving", "within"}
    assert effect["within"] != effect["preserving"]
    assert effect["within"] == pytest.approx(effect["preserving"], abs=0.2)
    assert len({row.rank for row in rows if row.eraser in effect}) == 1
