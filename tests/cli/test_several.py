"""`model=[a,b]` makes the run of each model alone, and one report over all of them."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from countergen_edit import api
from countergen_edit.cli.main import main
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Number, Table
from countergen_edit.reports.compare import Comparison
from countergen_edit.runs.folder import RunFolder, read_rows
from tests.cli.test_mistakes import fails
from tests.cli.test_unedited import GENERATING as FAIRPAIR_AND_CID
from tests.runs.runs import KilledError
from tests.tiny_models import tiny_model_dir

pytestmark = pytest.mark.slow  # every test is of whole runs

NAMES = ("t5", "gpt2")
GENERATING = [*FAIRPAIR_AND_CID, "cost=null"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {name: tiny_model_dir(name, folder / name) for name in NAMES}


def study(models: dict[str, Path], folder: Path) -> list[str]:
    both = ",".join(map(str, models.values()))
    return ["audit", f"model=[{both}]", *GENERATING, f"run_dir={folder}"]


@pytest.fixture(scope="module")
def folder(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of a T5 and a GPT-2 that was killed within the second, and then finished."""
    folder = tmp_path_factory.mktemp("study") / "both"
    record, left = RunFolder.record, [3]

    def dying(self: RunFolder, unit: str, rows: Sequence[Row]) -> None:
        if not left[0]:
            raise KilledError
        left[0] -= 1
        record(self, unit, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "record", dying)
        with pytest.raises(KilledError):
            main(study(models, folder))
    assert not (folder / "report.html").exists()
    assert main(study(models, folder)) == 0
    return folder


@pytest.fixture(scope="module")
def comparison(folder: Path) -> Comparison:
    return api.compare(*(folder / name for name in NAMES))


def table(comparison: Comparison, name: str) -> Table:
    [found] = [t for s in comparison.sections for t in s.tables() if t.name == name]
    return found


def test_each_run_is_the_one_of_its_model_alone_though_the_study_was_killed(
    models: dict[str, Path], folder: Path, tmp_path: Path
) -> None:
    words = [f"model={models['gpt2']}", *GENERATING, f"run_dir={tmp_path / 'alone'}"]
    assert main(["audit", *words]) == 0
    for file in ("results.jsonl", "config.yaml"):
        assert (tmp_path / "alone" / file).read_bytes() == (folder / "gpt2" / file).read_bytes()
    assert all((folder / name / "report.html").is_file() for name in NAMES)


def test_beside_the_runs_lie_a_page_its_tables_and_every_row(folder: Path) -> None:
    page = (folder / "report.html").read_text("utf-8")
    assert all(f">{name}" in page for name in NAMES)
    assert "FairPair by model" in page
    assert {"fairpair.csv", "fairpair.tex", "side_by_side.csv"} <= {
        path.name for path in (folder / "tables").iterdir()
    }
    with (folder / "rows.csv").open(encoding="utf-8") as file:
        lines = [*csv.DictReader(file)]
    for name in NAMES:
        own = [line for line in lines if line["run"] == name]
        assert len(own) == len(read_rows(folder / name / "results.jsonl"))
    assert {line["run"] for line in lines} == {*NAMES, "all runs"}


def test_every_metric_has_its_columns_where_runs_stand_side_by_side(
    folder: Path, comparison: Comparison
) -> None:
    shown = comparison.side_by_side
    assert [row[0] for row in shown.rows] == [*NAMES]
    titles = " ".join(shown.columns)
    assert "F, jaccard" in titles
    assert "divergence, λ=10" in titles
    for i, title in enumerate(shown.columns):
        assert all(row[i] != "" for row in shown.rows), title
    at = shown.columns.index("F, jaccard")
    for name, line in zip(NAMES, shown.rows, strict=True):
        [f] = [
            row
            for row in read_rows(folder / name / "results.jsonl")
            if row.metric == "fairpair_f" and row.facets == {"phi": "jaccard"}
        ]
        assert line[at] == Number.of(f, 2)


def test_table_3_is_every_run_and_their_mean(folder: Path, comparison: Comparison) -> None:
    own = table(comparison, "fairpair")
    rows = {name: read_rows(folder / name / "results.jsonl") for name in NAMES}
    at = own.columns.index("F")
    for phi in ("sentiment", "jaccard"):
        f = [
            row.value
            for name in NAMES
            for row in rows[name]
            if row.metric == "fairpair_f" and row.facets == {"phi": phi}
        ]
        lines = [line for line in own.rows if line[0] == phi]
        shown = [cell.value for line in lines if isinstance(cell := line[at], Number)]
        known = [value for value in f if value is not None]
        assert shown[:2] == f
        if len(known) == 2:
            assert lines[2][1] == "average of 2"
            assert math.isclose(shown[2] or 0, sum(known) / 2)


def test_cid_has_both_models_in_one_figure(comparison: Comparison) -> None:
    figures = {f.name: f for section in comparison.sections for f in section.figures()}
    [panel] = figures["cid"].panels
    assert [series.name for series in panel.series] == [*NAMES]


def test_what_would_stop_one_model_is_refused_before_any_runs(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "study"
    both = f"model=[{models['gpt2']},{models['t5']}]"
    scoring = [f"model=[{models['t5']},{models['gpt2']}]", "eraser=none", "metric=[r,cid]"]
    said = fails(capsys, "audit", *scoring, f"run_dir={place}")
    assert "metric=r needs likelihoods" in said
    missing = f"model=[{models['gpt2']},{tmp_path / 'nowhere'}]"
    assert "nowhere" in fails(capsys, "audit", missing, *GENERATING, f"run_dir={place}")
    assert not place.exists()
    place.mkdir()
    (place / "t5").mkdir()
    (place / "t5" / "mine.txt").touch()
    said = fails(capsys, "audit", both, *GENERATING, f"run_dir={place}")
    assert "no run folder but is not empty" in said
    assert [path.name for path in place.iterdir()] == ["t5"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["debias", "model=[testbed,gpt2]"], "debias takes one model"),
        (["audit", "model=[testbed,gpt2]", "--multirun"], "does not go with --multirun"),
        (["audit", "model=[testbed,gpt2]", "seeed=1"], "did you mean 'seed'"),
        (["cid", "model=[testbed,gpt2]", "prompts=[a,b]"], "action=compare takes one model"),
    ],
)
def test_a_list_of_models_that_cannot_be_is_one_line(
    words: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reason in fails(capsys, *words)


def test_classifiers_and_cid_take_several_models(models: dict[str, Path], tmp_path: Path) -> None:
    place = tmp_path / "classifiers"
    words = ["task=sentiment", "model=[testbed,testbed-unbiased]", f"run_dir={place}"]
    assert main(["classifiers", *words]) == 0
    header, *lines = (place / "tables" / "side_by_side.csv").read_text("utf-8").splitlines()
    assert "paraphrases that flip, over people" in header
    assert len(lines) == 2
    assert (place / "testbed-unbiased" / "results.jsonl").is_file()
    place = tmp_path / "cid"
    both = f"model=[{','.join(map(str, models.values()))}]"
    small = ["names=1", "lambda=0,10", "max_new_tokens=4"]
    assert main(["cid", "action=audit", both, *small, f"run_dir={place}"]) == 0
    page = (place / "report.html").read_text("utf-8")
    assert all(name in page for name in NAMES)
