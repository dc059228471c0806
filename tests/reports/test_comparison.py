"""Runs side by side show each run's own figures, and a file holds every row of all."""

from dataclasses import replace
from pathlib import Path

import pytest

from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number, plain
from countergen_edit.reports.compare import (
    axes_figure,
    axes_table,
    every_row,
    paired_table,
    run_names,
    side_by_side,
)
from countergen_edit.runs.run import Run
from tests.reports.runs import GROUPS, LABELS, LEACE, MANIFEST, audit_rows, in_memory

RUNS = [
    in_memory(audit_rows()),
    in_memory([r for r in audit_rows() if r.dataset != "jobs_test"], MANIFEST | {"seed": 1}),
]
DETAIL = {"of": "bias", "run": "b", "against_run": "a", "edit": "x", "against_edit": "none"}
DETAIL |= {"samples": 3, "samples_of_either": 4}
DIFFERENCE = Row(
    "a_difference", -0.2, lo=-0.3, hi=-0.1, dataset="traits_test", detail=DETAIL, **GROUPS, **LEACE
)


def named(*runs):
    return dict(zip("ab", runs, strict=True))


def test_runs_are_told_apart_by_as_little_of_their_folders_as_that_takes():
    runs = [Run(Path(path), Results([])) for path in ("/x/a/run", "/x/b/run", "/x/b/other")]
    assert run_names(runs[1:]) == ["run", "other"]
    assert run_names(runs) == ["a/run", "b/run", "b/other"]


@pytest.mark.parametrize(
    ("run", "edit", "title", "text"),
    [
        ("a", "unedited", "mean |R|, jobs", "0.600"),
        ("a", LABELS["leace"], "mean |R|, jobs", "0.300"),
        ("b", "unedited", "mean |R|, jobs", ""),
        ("b", "unedited", "mean |R|, traits", "0.610"),
        ("a", "unedited", "mean |R|, traits", "0.610"),  # though not its main one
        ("b", LABELS["leace"], "perplexity ratio", "1.250"),
        ("b", "unedited", "seed", "1"),
    ],
)
def test_a_run_shows_its_own_figure_of_a_name_or_none(run, edit, title, text):
    [table] = side_by_side(named(*RUNS))
    [row] = [row for row in table.rows if row[:2] == (run, edit)]
    assert plain(row[table.columns.index(title)]) == text


def test_runs_on_different_data_are_not_shown_as_alike():
    hashed = [replace(RUNS[0], manifest=MANIFEST | {"data_hash": hash_}) for hash_ in "xxy"]
    assert side_by_side(named(*hashed[:2]))[0].note == ""
    assert "made on different data" in side_by_side(named(*hashed[1:]))[0].note


def test_paired_differences_name_both_edits():
    other = replace(DIFFERENCE, value=-0.1)
    [table] = paired_table([DIFFERENCE, other], named(*RUNS))
    [(title, _, *numbers, shared)] = table.rows
    assert title == "b with leace-1@resid_post.2 − a unedited"
    assert numbers == [Number(value, -0.3, -0.1, signed=True) for value in (-0.2, -0.1)]
    assert shared == "3 of 4"


def test_the_frame_holds_every_row_with_every_digit():
    frame = every_row(named(*RUNS), [DIFFERENCE])
    assert len(frame) == sum(len(run.results.rows) for run in RUNS) + 1
    last = frame.iloc[-1]
    assert (last["run"], last["minus"], last["lo"]) == ("b", "a", -0.3)
    values = frame[frame["run"] == "a"].value
    assert values.tolist() == [row.value for row in RUNS[0].results.rows]


def of_axis(axis, model, *pairs, sets=("jobs",)):
    """A run with a group effect of each pair and set, which differ."""
    facets = {"groups": 3.0} if pairs[1:] else {}
    rows = [
        Row("group_effect", i + 0.5, "", f"{name}_test", axis, a, b, facets, split="test", lo=0.1)
        for i, (a, b) in enumerate(pairs)
        for name in sets
    ]
    every = [replace(r, hi=r.value + 1, detail={"p_adjusted": 0.01}) for r in rows if r.value]
    all_groups = {"group_a": "", "group_b": "", "metric": "omnibus_effect"}
    every += [replace(row, **all_groups) for row in every[:1] if facets]
    return in_memory(every, MANIFEST | {"model": model})


def test_runs_about_several_axes_have_a_line_for_each_axis_pair_and_set():
    three = ("female", "male"), ("female", "nonbinary"), ("male", "nonbinary")
    religion = ("christian", "muslim")
    runs = {
        "a": of_axis("religion", "one", religion, sets=("jobs", "traits")),
        "b": of_axis("gender_identity", "one", *three),
        "c": of_axis("religion", "two", religion),
    }
    [table] = axes_table(runs)
    assert [row[:3] for row in table.rows] == [
        ("religion", "christian and muslim", "jobs"),
        ("religion", "christian and muslim", "traits"),
        *(("gender identity", f"{a} and {b}", "jobs") for a, b in three),
        ("gender identity", "all 3", "jobs"),
    ]
    ends = ("group effect, nats", "P (Holm)", "result")
    assert table.columns[3:] == tuple(f"{end}, {model}" for model in ("one", "two") for end in ends)
    assert table.rows[0][3] == table.rows[0][6] == Number(0.5, 0.1, 1.5)
    assert table.rows[1][6] == ""
    assert table.rows[0][5] == "biased"
    [figure] = axes_figure(runs)
    assert [(panel.title, len(panel.series)) for panel in figure.panels] == [
        ("religion: christian and muslim", 2),
        *((f"gender identity: {a} and {b}", 1) for a, b in three),
    ]
    assert figure.panels[0].series[0].x == ("jobs", "traits")
    assert axes_table({"a": runs["a"], "c": runs["c"]}) == []  # one axis: side by side is enough
    alike = {"a": runs["a"], "b": runs["b"], "again": runs["a"]}  # models do not tell runs apart
    assert "P (Holm), again" in axes_table(alike)[0].columns
