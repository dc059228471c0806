"""The sweep's command: its exit code tells of failed cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import call, names, sets

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
