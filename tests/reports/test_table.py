"""The printed audit shows the figures of the rows and none of its own."""

from __future__ import annotations

import io
import re

from rich.console import Console

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.results import Results
from countergen_edit.reports.terminal import print_audit

SET = {"dataset": "jobs_test", "axis": "gender", "group_a": "female", "group_b": "male"}
EDIT = {"edit": "rlace-1@resid_post.2", "eraser": "rlace", "layer": 2, "rank": 1}
ROWS = [
    Row("r", 0.111, split="test", lo=0.1, hi=0.12, detail={"starred": True}, **SET),
    Row("mean_abs_r", 0.654, split="test", lo=0.611, hi=0.688, n=7, **SET),
    Row("agreement", 0.987, split="test", dataset="agreement_test", group_a="female"),
    Row("perplexity", 2.345, split="test", dataset="neutral"),
    Row("planted_mean_abs_r", 0.666, split="test", **SET),
    Row("r", -0.222, split="test", detail={"starred": False}, **SET, **EDIT),
    Row("mean_abs_r", 0.123, split="test", lo=0.101, hi=0.144, n=7, **SET, **EDIT),
    Row("abs_r_reduction", 0.812, split="test", **SET, **EDIT),
    Row("agreement", 0.321, split="test", dataset="agreement_test", group_a="female", **EDIT),
    Row("perplexity", 3.456, split="test", dataset="neutral", **EDIT),
    Row("perplexity_ratio", 1.474, split="test", dataset="neutral", **EDIT),
    Row("linear_probe_accuracy_before", 0.97, split="validation", **EDIT),
    Row("linear_probe_accuracy", 0.51, split="validation", **EDIT),
]


def printed(rows: list[Row]) -> str:
    file = io.StringIO()
    print_audit(Results(rows), Console(width=80, file=file))
    return file.getvalue()


def test_every_figure_of_the_rows_is_printed() -> None:
    text = printed(ROWS)
    for figure in (
        "0.654",
        ".611–.688",
        "0.666",
        "0.123",
        "81 % removed",
        "-81%",
        "+0.111*",
        "-0.222",
        "0.321",
        "3.456",
        "× 1.474",
        "0.970",
        "0.510",
    ):
        assert figure in text, figure


def test_no_figure_is_printed_that_no_row_holds() -> None:
    known = {
        f"{value:{form}}"
        for row in ROWS
        for value in (row.value, row.lo, row.hi)
        if value is not None
        for form in (".3f", "+.3f", ".2f")
    }
    assert set(re.findall(r"[+-]?\d+\.\d+", printed(ROWS))) <= known


def test_an_undefined_value_is_a_dash() -> None:
    rows = [Row("mean_abs_r", None, split="test", **SET)]
    assert "–" in printed(rows)
