"""CONTRIBUTING's steps, followed to the letter from an empty folder; the package stays as it is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import countergen_edit
from countergen_edit.cli.main import main

pytestmark = pytest.mark.slow  # every test is of whole runs

ROOT = Path(countergen_edit.__file__).parent.parent
TEXT = (ROOT / ".github/CONTRIBUTING.md").read_text("utf-8")
FILES = dict(re.findall(r"```(?:python|yaml)\n# (my_\w+\.\w+)\n(.*?)```", TEXT, re.DOTALL))
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("countergen-edit ")
]
FEW = "names={fit: 8, few: 4, agreement: 2, validation: 4, test: 6}"
QUICK = {
    "audit": ["edit.layers=[4]", FEW],
    "sweep": ["layers=[3,4]", FEW],
    "debias": ["layers=[4,5]"],
}
"""What makes them quick enough for a test."""
ONE = "[{source: testbed, family: traits}]"
SMALL = [f"data.{split}={ONE}" for split in ("fit", "validation", "test")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newcomer")
    for name, content in FILES.items():
        (folder / name).write_text(content, "utf-8")
    return folder


@pytest.fixture(scope="module")
def printed(place: Path) -> dict[str, str]:
    """What every command of the page prints, by its run folder."""
    import contextlib
    import io

    outputs = {}
    with contextlib.chdir(place):
        for line in COMMANDS:
            _, command, *words = shlex.split(line)
            small = [] if any(w.startswith("data=") for w in words) else SMALL
            more = [*QUICK[command], *small] if command in QUICK else []
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                assert main([command, *words, *more]) == 0, line
            name = next((w.partition("=")[2] for w in words if w.startswith("run_dir=")), words[0])
            outputs[name] = outputs.get(name, "") + " ".join(out.getvalue().split())
    return outputs


def rows(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "results.jsonl").read_text("utf-8").splitlines()]


def test_the_page_has_a_file_of_every_kind_and_a_command_for_each() -> None:
    assert set(FILES) == {
        "my_eraser.py", "my_metric.py", "my_cost.py", "my_axis.yaml", "my_data.yaml",
        "my_benchmark.yaml", "my_documents.py",
    }  # fmt: skip
    for name in {*FILES} - {"my_documents.py"}:  # which the benchmark names
        assert any(name in line for line in COMMANDS), name
    assert {line.split()[1] for line in COMMANDS} == {"audit", "sweep", "debias", "report"}


def test_an_eraser_of_ones_own_is_compared(place: Path, printed: dict[str, str]) -> None:
    run = place / "with_my_eraser"
    assert "FirstDifference (rank 1)" in printed[run.name]
    assert "FirstDifference-1@resid_post.4" in (run / "report.html").read_text("utf-8")
    values = {r["eraser"]: r["value"] for r in rows(run) if r["metric"] == "mean_abs_r"}
    assert values["FirstDifference"] < values[""] / 2  # it takes most of the bias away


def test_a_metric_of_ones_own_is_shown_everywhere(place: Path, printed: dict[str, str]) -> None:
    run = place / "with_my_metric"
    assert "Certainty" in printed[run.name]
    page = (run / "report.html").read_text("utf-8")
    assert "Certainty" in page
    assert "probability" in page
    table = (run / "files" / "Certainty.csv").read_text("utf-8")
    values = [r["value"] for r in rows(run) if (r["metric"], r["split"]) == ("Certainty", "test")]
    assert len(values) == 3  # no edit, the eraser's, random directions
    assert all(str(value) in table for value in values)
    assert (run / "files" / "Certainty.svg").stat().st_size > 1000


def test_a_cost_of_ones_own_has_a_budget_that_counts(place: Path, printed: dict[str, str]) -> None:
    run = place / "with_my_cost"
    assert json.loads((run / "manifest.json").read_text())["budgets"] == {
        "agreement": 0.01,
        "WorstText": 0.2,
    }
    choices = [r for r in rows(run) if r["metric"] == "cost"]
    assert choices
    for row in choices:
        degradations = row["detail"]["degradations"]  # type: ignore[index]
        shares = [max(0, degradations["agreement"] / 0.01), max(0, degradations["WorstText"] / 0.2)]
        assert row["value"] == pytest.approx(max(shares))
    card = (run / "checkpoint" / "README.md").read_text("utf-8")
    for text in (printed[run.name], (run / "report.html").read_text("utf-8"), card):
        assert "worst text" in text
    assert "Certainty" in card


def test_an_axis_and_data_of_ones_own_are_measured(place: Path, printed: dict[str, str]) -> None:
    run = place / "with_my_axis"
    measured = [r for r in rows(run) if r["metric"] == "mean_abs_r" and r["split"] == "test"]
    assert {(r["axis"], r["dataset"]) for r in measured} == {("seniority", "trade")}
    assert {(r["group_a"], r["group_b"]) for r in measured} == {("junior", "senior")}
    assert "trade" in printed[run.name]
    assert "seniority" in (run / "report.html").read_text("utf-8")


def test_a_benchmark_of_ones_own_is_measured(place: Path, printed: dict[str, str]) -> None:
    [row] = [r for r in rows(place / "with_my_benchmark") if r["metric"] == "benchmark"]
    assert (row["dataset"], row["n"]) == ("my_benchmark.yaml", 2)
    page = (place / "with_my_benchmark" / "report.html").read_text("utf-8")
    assert "my benchmark.yaml score (gender)" in page
    assert "On benchmarks the unedited model" in printed["with_my_benchmark"]


def test_a_search_takes_all_of_them(place: Path, printed: dict[str, str]) -> None:
    run = place / "with_my_sweep"
    cells = [r for r in rows(run) if r["metric"] == "bias_removed" and not r["baseline"]]
    assert {r["eraser"] for r in cells} == {"FirstDifference"}
    assert {tuple(r["layers"]) for r in cells} == {(3,), (4,)}  # type: ignore[arg-type]
    assert "worst text" in (run / "report.html").read_text("utf-8")
    assert "FirstDifference" in printed[run.name]


def test_a_run_shows_a_metric_of_ones_own_after_its_process_has_ended(
    place: Path, printed: dict[str, str]
) -> None:
    import subprocess
    import sys

    words = [sys.executable, "-m", "countergen_edit.cli.main", "report", "with_my_metric"]
    (place / "with_my_metric" / "report.html").unlink()
    subprocess.run([*words, "files=csv"], cwd=place, check=True, capture_output=True)
    assert ">Certainty" in (place / "with_my_metric" / "report.html").read_text()
