"""Runs side by side show each run's own figures, and a file holds every row of all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number
from countergen_edit.reports.compare import (
    every_row,
    paired_table,
    run_names,
    side_by_side,
)
from countergen_edit.runs.run import Run
from tests.reports.runs import GROUPS, LEACE, MANIFEST, audit_rows, in_memory

RUNS = [
    in_memory(audit_rows()),
    in_memory([r for r in audit_rows() if r.dataset != "jobs_test"], MANIFEST | {"seed": 1}),
]
DETAIL = {"of": "bias", "run": "b", "against_run": "a", "edit": "x", "against_edit": "none"}
DETAIL |= {"samples": 3, "samples_of_either": 4}
DIFFERENCE = Row(
    "a_difference", -0.2, lo=-0.3, hi=-0.1, dataset="traits_test", detail=DETAIL, **GROUPS, **LEACE
)


def named(*runs: Run) -> dict[str, Run]:
    return dict(zip("ab", runs, strict=True))


def cell(run: str, edit: str, title: str) -> str:
    [table] = side_by_side(named(*RUNS))
    [row] = [row for row in table.rows if row[:2] == (run, edit)]
    value = row[table.columns.index(title)]
    return value.text if isinstance(value, Number) else str(value)


def test_runs_are_told_apart_by_as_little_of_their_folders_as_that_takes() -> None:
    runs = [Run(Path(path), Results([])) for path in ("/x/a/run", "/x/b/run", "/x/b/other")]
    assert run_names(runs[1:]) == ["run", "other"]
    assert run_names(runs) == ["a/run", "b/run", "b/other"]


def test_a_run_shows_its_own_figure_of_a_name_or_none() -> None:
    leace = "leace-1@resid_post.2"
    assert cell("a", "unedited", "mean |R|, jobs") == "0.600"
    assert cell("a", leace, "mean |R|, jobs") == "0.300"
    assert cell("b", "unedited", "mean |R|, jobs") == ""
    assert cell("b", "unedited", "mean |R|, traits") == "0.610"
    assert cell("a", "unedited", "mean |R|, traits") == "0.610"  # though not its main one
    assert cell("b", leace, "perplexity ratio") == "1.250"
    assert cell("b", "unedited", "seed") == "1"


def test_runs_on_different_data_are_not_shown_as_alike() -> None:
    hashed = [replace(RUNS[0], manifest=MANIFEST | {"data_hash": hash_}) for hash_ in "xxy"]
    assert side_by_side(named(*hashed[:2]))[0].note == ""
    assert "made on different data" in side_by_side(named(*hashed[1:]))[0].note


def test_how_the_runs_were_prompted_stands_beside_them_where_it_differs() -> None:
    chat = {"template": {"sha256": "c" * 64, "instruction": "Be fair."}}
    [table] = side_by_side(named(RUNS[1], replace(RUNS[1], manifest=MANIFEST | chat)))
    prompts = table.columns.index("prompts")
    assert {(row[0], row[prompts]) for row in table.rows} == {
        ("a", "plain texts"),
        ("b", "chat template cccccccc Be fair."),
    }


def test_paired_differences_name_both_edits() -> None:
    other = replace(DIFFERENCE, value=-0.1)
    [table] = paired_table([DIFFERENCE, other], named(*RUNS))
    [row] = table.rows
    assert row[0] == "b with leace-1@resid_post.2 − a unedited"
    assert row[2:4] == (
        Number(-0.2, -0.3, -0.1, signed=True),
        Number(-0.1, -0.3, -0.1, signed=True),
    )
    assert row[4] == "3 of 4"


def test_the_frame_holds_every_row_with_every_digit() -> None:
    frame = every_row(named(*RUNS), [DIFFERENCE])
    assert len(frame) == sum(len(run.results.rows) for run in RUNS) + 1
    last = frame.iloc[-1]
    assert (last["run"], last["minus"], last["lo"]) == ("b", "a", -0.3)
    own = frame[frame["run"] == "a"]
    assert own["value"].tolist() == [row.value for row in RUNS[0].results.rows]
