"""The printed run shows the figures of the rows and none of its own, however narrow the screen."""

import re

import pytest

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number, Quotes, Section, Table, Tokens, Words
from tests.reports.runs import GROUPS, LEACE, in_memory, printed

TEST = {"p": 0.05, "p_adjusted": 0.05, "people": 12, "people_needed": 4}
SET = {"dataset": "jobs_test", **GROUPS}
ROWS = [
    Row("r", 0.111, split="test", lo=0.1, hi=0.12, detail={"starred": True}, **SET),
    Row("group_effect", 0.654, split="test", lo=0.611, hi=0.688, n=7, detail=TEST, **SET),
    Row("agreement", 0.987, split="test", dataset="agreement_test", group_a="female"),
    Row("perplexity", 2.345, split="test", dataset="neutral"),
    Row("perplexity_ratio", 1.0, split="test", dataset="neutral"),
    Row("planted_group_effect", 0.666, split="test", **SET),
    Row("r", -0.222, split="test", detail={"starred": False}, **SET, **LEACE),
    Row("group_effect", 0.123, split="test", lo=0.101, hi=0.144, n=7, detail=TEST, **SET, **LEACE),
    Row("group_effect_removed", 0.812, lo=0.75, hi=0.85, split="test", **SET, **LEACE),
    Row("agreement", 0.321, split="test", dataset="agreement_test", group_a="female", **LEACE),
    Row("perplexity", 3.456, split="test", dataset="neutral", **LEACE),
    Row("perplexity_ratio", 1.474, split="test", dataset="neutral", **LEACE),
    Row("linear_probe_accuracy_before", 0.97, split="validation", **LEACE),
    Row("linear_probe_accuracy", 0.51, split="validation", **LEACE),
]


@pytest.mark.parametrize("width", [80, 50])
def test_the_figures_of_the_rows_are_printed_and_no_others(width):
    text = printed(in_memory(ROWS), width).replace("−", "-")
    for figure in ("0.654", ".611–.688", "0.666", "0.123", "81 %", "0.321", "1.474"):
        assert figure in " ".join(text.split()), figure
    values = [v for row in ROWS for v in (row.value, row.lo, row.hi) if v is not None]
    known = {f"{value:{form}}" for value in values for form in (".3f", "+.3f", ".2f")}
    assert set(re.findall(r"[+-]?\d+\.\d+", text)) <= {*known, "0.05"}  # the level of the test


def test_the_verdict_comes_last_and_what_is_not_brief_not_at_all():
    lines = printed(in_memory(ROWS)).strip().splitlines()
    assert "Biased: on 1 of 1 set" in " ".join(lines[-12:])
    parts = [
        Section("overview", "", (Words(("the verdict",), brief=True),)),
        Section("mine", "", (Words(("aside",)), Words(("a finding",), brief=True))),
    ]
    assert printed(parts).split("\n\n") == ["• a finding", "• the verdict\n"]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("width", [30, 60, 100])
def test_a_table_that_is_too_wide_is_parted_and_never_cut(width, grouped):
    columns = [f"a title of edit-{i}@resid_post.{i}" for i in range(7)]
    rows = tuple(
        (
            *((f"the group {g}",) if grouped else ()),
            f"the set number {s} of the group {g}",
            *(Number(g + s / 10 + i / 1000, 0.1, 0.9, signed=True) for i in range(7)),
        )
        for g in range(2)
        for s in range(2)
    )
    first = ("group", "set") if grouped else ("set",)
    table = Table("t", "A title", (*first, *columns), rows, "A note.", grouped=grouped)
    text = printed(table, width)
    assert max(map(len, text.splitlines())) <= width
    assert all(cell.text in text for row in rows for cell in row if isinstance(cell, Number))
    assert all(f"{word}{i}" in text for word in ("edit-", "@resid_post.") for i in range(7))
    parts = text.count("──") and sum(line.startswith("──") for line in text.splitlines())
    # What the rows are about stands in every part: the start of each set's name, group by group.
    assert text.count("the set") == parts * 4
    if grouped:
        assert text.count("the group") >= parts * 2
    assert parts > 1 or width == 100
    assert "A note." in text


def test_texts_are_printed_as_they_are():
    text = "[red]not a colour[/red] \x1b[31m"
    cells = (text, Quotes(((text, "twice"),)), Tokens((text, " b\n"), (0.5, -0.5), "0.1"))
    shown = printed(Table("t", "T", ("a", "b", "c"), (cells,)), 120)
    assert shown.count("[red]not a") == 3
    assert "\x1b" not in shown
