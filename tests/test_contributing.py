"""CONTRIBUTING's steps, followed to the letter from an empty folder; the package stays as it is."""

import contextlib
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import ENVIRONMENT, ROOT, call, rows_of, sets
from tests.printed import files, lines

pytestmark = pytest.mark.slow  # every test is of whole runs

TEXT = (ROOT / ".github/CONTRIBUTING.md").read_text("utf-8")
FILES = {name: text for name, text in files(TEXT).items() if name.startswith("my_")}
COMMANDS = [line for line in lines(TEXT) if line.startswith("countergen-edit ")]
FEW = "names={fit: 8, few: 4, agreement: 2, validation: 4, test: 6}"
QUICK = {"audit": ["edit.layers=[4]", FEW], "sweep": ["layers=[3,4]", FEW]}
QUICK["debias"] = ["layers=[4,5]"]
"""What makes them quick enough for a test."""
SMALL = sets("traits")


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What every command of the page prints in a folder of its files, by its run folder."""
    outputs = {}
    with contextlib.chdir(tmp_path_factory.mktemp("newcomer")):
        for name, content in FILES.items():
            Path(name).write_text(content, "utf-8")
        for line in COMMANDS:
            _, command, *words = shlex.split(line)
            small = [] if any(w.startswith("data=") for w in words) else SMALL
            ended = call(command, *words, *QUICK.get(command, ()), *(small * (command in QUICK)))
            assert ended.code == 0, line
            name = next((w.partition("=")[2] for w in words if w.startswith("run_dir=")), words[0])
            outputs[name] = outputs.get(name, "") + ended.words
        yield outputs


def page_of(run):
    return (Path(run) / "report.html").read_text("utf-8")


def test_the_page_has_a_file_of_every_kind_and_a_command_for_each():
    kinds = ("eraser.py", "metric.py", "cost.py", "axis.yaml", "data.yaml", "benchmark.yaml")
    assert set(FILES) == {*(f"my_{kind}" for kind in kinds), "my_documents.py"}
    for name in {*FILES} - {"my_documents.py"}:  # which the benchmark names
        assert any(name in line for line in COMMANDS), name


def test_an_eraser_of_ones_own_is_compared(printed):
    run = "with_my_eraser"
    assert "FirstDifference (rank 1)" in printed[run]
    assert "FirstDifference-1@resid_post.4" in page_of(run)
    values = {row.eraser: row.value for row in rows_of(run, "mean_abs_r")}
    assert values["FirstDifference"] < values[""] / 2  # it takes most of the bias away


def test_a_metric_of_ones_own_is_shown_everywhere(printed):
    run = "with_my_metric"
    assert "Certainty" in printed[run]
    assert "probability" in page_of(run)
    table = (Path(run) / "files" / "Certainty.csv").read_text("utf-8")
    values = [row.value for row in rows_of(run, "Certainty", split="test")]
    assert len(values) == 3  # no edit, the eraser's, random directions
    assert all(str(value) in table for value in values)
    assert (Path(run) / "files" / "Certainty.svg").stat().st_size > 1000
    # Also in another process.
    (Path(run) / "report.html").unlink()
    words = [sys.executable, "-m", "countergen_edit.cli.main", "report", run, "files=csv"]
    subprocess.run(words, check=True, capture_output=True, env=ENVIRONMENT)
    assert ">Certainty" in page_of(run)


def test_a_cost_of_ones_own_has_a_budget_that_counts(printed):
    run = "with_my_cost"
    budgets = json.loads((Path(run) / "manifest.json").read_text())["budgets"]
    assert budgets == {"agreement": 0.01, "WorstText": 0.2}
    choices = rows_of(run, "cost")
    assert choices
    for row in choices:
        lost = row.detail["degradations"]
        shares = [max(0, lost[name] / budget) for name, budget in budgets.items()]
        assert row.value == pytest.approx(max(shares))
    card = (Path(run) / "checkpoint" / "README.md").read_text("utf-8")
    for text in (printed[run], page_of(run), card):
        assert "worst text" in text
    assert "Certainty" in card


def test_an_axis_and_data_of_ones_own_are_measured(printed):
    run = "with_my_axis"
    measured = rows_of(run, "mean_abs_r", split="test")
    about = {(row.axis, row.dataset, row.group_a, row.group_b) for row in measured}
    assert about == {("seniority", "trade", "junior", "senior")}
    assert "trade" in printed[run]
    assert "seniority" in page_of(run)


def test_a_benchmark_of_ones_own_is_measured(printed):
    run = "with_my_benchmark"
    [row] = rows_of(run, "benchmark")
    assert (row.dataset, row.n) == ("my_benchmark.yaml", 2)
    assert "my benchmark.yaml score (gender)" in page_of(run)
    assert "On benchmarks the unedited model" in printed[run]


def test_a_search_takes_all_of_them(printed):
    run = "with_my_sweep"
    cells = rows_of(run, "bias_removed", baseline=False)
    assert {(row.eraser, tuple(row.layers)) for row in cells} == {
        *(("FirstDifference", (layer,)) for layer in (3, 4))
    }
    assert "worst text" in page_of(run)
    assert "FirstDifference" in printed[run]
