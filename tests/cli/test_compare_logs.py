"""`compare` holds logs of other tools against each other, item by item, in tables like ours."""

import csv
from pathlib import Path

import pytest

from countergen_edit import api
from countergen_edit.core.errors import UserError
from countergen_edit.reports.blocks import Number
from countergen_edit.runs.compare import paired_items
from countergen_edit.runs.logs import read_log
from tests.cli.support import said
from tests.reports.runs import make_run
from tests.runs.foreign_logs import DOCS, answered, inspect_log, lm_eval, sample, scored

BEFORE, AFTER = [1.0] * 8 + [0.0] * 4, [0.0] * 7 + [1.0] * 5


@pytest.fixture
def logs(tmp_path):
    tasks = {"jobs": scored(BEFORE), "other": scored(BEFORE)}
    before = lm_eval(tmp_path / "before", tasks)
    tasks = {"jobs": scored(AFTER), "other": scored(BEFORE)}
    after = lm_eval(tmp_path / "after", tasks, model="/models/after")
    return [str(before), str(after)]


def cells(table, task, metric="acc"):
    [row] = [row for row in table.rows if row[1:3] == (task, metric)]
    return dict(zip(table.columns, row, strict=True))


def test_a_task_has_both_means_their_difference_and_its_test(logs):
    """Seven items got worse, four better: P = 2 · Σ C(11, k ≤ 4) / 2¹¹ = 2 · 562 / 2048."""
    jobs = cells(api.compare(*logs).tables["paired_items"], "jobs")
    assert jobs["before"] == Number(8 / 12)
    assert jobs["after"] == Number(5 / 12)
    assert jobs["items"] == "12 of 12"
    assert jobs["P (Holm)"] == Number(1.0, digits=4, bounded=True)  # of two tests, at most 1
    difference = jobs["difference"]
    assert difference.value == pytest.approx(-3 / 12)
    assert difference.lo < -3 / 12 < difference.hi
    [row, other] = paired_items({name: read_log(Path(name)) for name in logs}, seed=0)
    assert row.detail["p"] == pytest.approx(2 * 562 / 2048)
    assert other.detail["p"] == 1.0


def test_what_does_not_pair_is_counted_and_said(tmp_path):
    doubled = [*DOCS, DOCS[0]]
    lines = [sample(n, d, acc=1.0, brier=[0, 1]) for n, d in enumerate(doubled)]
    lines[3]["acc"] = float("nan")
    lines[4]["prompt_hash"] = "another"
    one = lm_eval(tmp_path / "one", {"jobs": lines, "lonely": scored(BEFORE)})
    two = lm_eval(tmp_path / "two", {"jobs": scored(AFTER[2:], DOCS[2:])})
    table = api.compare(one, two).tables["paired_items"]
    assert cells(table, "jobs")["items"] == "9 of 12"
    for text in (
        "Items of one side only: jobs 3.",
        "Items that occur more than once and count once, by their mean: jobs 1.",
        "Items without a score: jobs 1.",
        "(other examples or template): jobs 1.",
        "Not one number per item, and not compared: jobs, brier.",
        "Not in every log: lonely (one).",
    ):
        assert text in table.note, table.note


def test_other_settings_of_a_task_are_refused(tmp_path):
    one = lm_eval(tmp_path / "one", {"jobs": scored(BEFORE)})
    other = lm_eval(tmp_path / "five", {"jobs": scored(AFTER)}, shots=5)
    with pytest.raises(UserError, match="jobs is not the same in both: shots 0 in one, 5 in five"):
        api.compare(one, other)
    pytest.importorskip("inspect_ai", reason="needs countergen-edit[inspect]")
    log_a = inspect_log(tmp_path / "a.json", answered([1] * 12))
    log_b = inspect_log(tmp_path / "b.json", answered([1] * 12), scorer={"location": "any"})
    with pytest.raises(UserError, match=r"scorer match \{\} in a.json, \{'loc"):
        api.compare(log_a, log_b)


def test_the_command_prints_pairs_and_writes_every_digit(logs):
    place = Path("both")
    printed = said("compare", *logs, "folder=both")
    assert "Paired differences, item by item" in printed
    assert "share no prompts" not in printed
    assert (place / "report.html").is_file()
    with (place / "tables" / "paired_items.csv").open() as file:
        [jobs, other] = csv.DictReader(file)
    assert (float(jobs["before"]), float(jobs["after"])) == (8 / 12, 5 / 12)
    assert float(other["P (Holm)"]) == 1
    with (place / "rows.csv").open() as file:
        metrics = [line["metric"] for line in csv.DictReader(file)]
    assert metrics == ["logged_score"] * 4 + ["logged_change"] * 2


def test_a_log_stands_beside_a_run_of_ours_and_is_paired_with_none(logs, tmp_path):
    run = make_run(tmp_path / "run", outputs=1)
    comparison = api.compare(run, logs[0])
    assert "paired_items" not in comparison.tables
    assert "score, jobs, acc" in comparison.tables["side_by_side"].columns
    assert "paired_items" in api.compare(run, *logs).tables
