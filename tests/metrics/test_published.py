"""Published figures stand beside those of the paper's models, sets and groups alone."""

from __future__ import annotations

from dataclasses import replace

from countergen_edit.metrics.r.published import SETS, TABLE_1, published_r
from countergen_edit.metrics.rows import Row
from tests.reports.runs import GROUPS


def test_published_r_is_of_the_papers_models_sets_and_groups_alone() -> None:
    row = Row("r", 0.5, dataset=SETS[0], **GROUPS)
    assert published_r("openai/ada", row) == {"r": TABLE_1["ada"][0][0], "starred": False}
    assert published_r("davinci-002", row) is None
    assert published_r("ada", replace(row, dataset="jobs")) is None
    assert published_r("ada", replace(row, group_a="male", group_b="female")) is None
