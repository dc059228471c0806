"""What `countergen-edit new` writes works as it stands, and the line that it ends with is true."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from countergen_edit.cli.new import NEXT

SMALL = [
    "cost=agreement",
    "edit.layers=[4]",
    "names={fit: 8, few: 4, agreement: 2, validation: 4, test: 6}",
]


def said_by(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([*words]) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("new")


@pytest.fixture(scope="module")
def lines(place: Path) -> dict[str, list[str]]:
    """Kind → the words after `countergen-edit audit` that its file ends with."""
    found = {}
    with contextlib.chdir(place):
        for kind in NEXT:
            _, line = said_by("new", kind, f"my_{kind}").splitlines()
            first, command, *words = shlex.split(line.removeprefix("Next: "))
            assert (first, command) == ("countergen-edit", "audit")
            found[kind] = words
    return found


def test_a_file_of_each_kind_is_written_and_says_how_it_is_tried(
    place: Path, lines: dict[str, list[str]]
) -> None:
    files = {path.name for path in place.iterdir() if path.is_file()}
    assert files == {"my_axis.yaml", "my_data.yaml", "my_eraser.py", "my_metric.py"}
    for kind, words in lines.items():
        [file] = place.glob(f"my_{kind}.*")
        text = file.read_text("utf-8")
        assert f"Try it:  {NEXT[kind].partition('{')[0]}" in text
        assert any(file.name in word for word in words)
        assert "{{" not in text
        assert max(map(len, text.splitlines())) <= 120


def test_what_is_there_is_not_written_over(
    place: Path, lines: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines
    with contextlib.chdir(place):
        Path("my_axis.yaml").touch()
        before = Path("my_axis.yaml").read_bytes()
        assert main(["new", "axis", "my_axis"]) == 2
        assert Path("my_axis.yaml").read_bytes() == before
    assert "my_axis.yaml is there already: choose another name" in capsys.readouterr().err


@pytest.mark.slow
def test_axis_eraser_and_metric_work_as_they_are(place: Path, lines: dict[str, list[str]]) -> None:
    words = [*lines["axis"], *lines["eraser"], *lines["metric"]]
    with contextlib.chdir(place):
        said = said_by("audit", *words, *SMALL, "run_dir=all")
    assert "MyMetric" in said
    rows = [json.loads(line) for line in (place / "all/results.jsonl").read_text().splitlines()]
    tested = [row for row in rows if row["split"] == "test"]
    left = {r["eraser"]: r["value"] for r in tested if r["metric"] == "mean_abs_r"}
    assert left["MyEraser"] < left[""]  # it takes out some of the bias
    shares = [row["value"] for row in tested if row["metric"] == "MyMetric"]
    assert len(shares) == 3  # no edit, the eraser's, random directions
    assert all(share < 0 for share in shares)  # mean log-probabilities
    assert {(r["axis"], r["dataset"]) for r in tested if r["metric"] == "mean_abs_r"} == {
        ("my_axis", "work")
    }


@pytest.mark.slow
def test_data_work_as_they_are(place: Path, lines: dict[str, list[str]]) -> None:
    with contextlib.chdir(place):
        said = said_by("audit", *lines["data"], *SMALL, "eraser=rlace", "metric=r", "run_dir=data")
    assert "The run fits on my_data_fit (4 prompts); keeps agreement_fit (" in said
    assert "chooses by my_data_validation (2 prompts); tests on my_data_test (3 " in said
