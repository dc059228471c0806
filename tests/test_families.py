"""The table of families in docs/models.md is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.families import COLUMNS, EVERY, lines

PAGE = (Path(__file__).parents[1] / "docs" / "models.md").read_text("utf-8").splitlines()


def test_the_table_has_every_family_and_column() -> None:
    begin = PAGE.index(f"| family | {' | '.join(COLUMNS)} |")
    named = [line.split(" | ")[0].strip("| ") for line in PAGE[begin + 2 :][: len(EVERY)]]
    assert named == [*EVERY]


@pytest.mark.slow
@pytest.mark.parametrize("family", EVERY)
def test_a_family_does_what_its_row_says(family: str) -> None:
    for line in lines(family):
        assert line in PAGE
