"""A run that cannot be read is refused in one line, and what was there stays as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from countergen_edit.errors import UserError
from countergen_edit.reports.html import write_report
from countergen_edit.reports.run import open_run
from tests.reports.runs import make_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "audit", outputs=2)


def test_rows_that_a_killed_process_left_behind_are_not_read(run: Path) -> None:
    before = open_run(run).results.rows
    with (run / "results.jsonl").open("a") as file:
        file.write('{"metric": "r", "val')
    assert open_run(run).results.rows == before


def test_a_line_end_within_a_text_does_not_end_the_row(run: Path) -> None:
    texts = [
        r.detail["examples"][0]["original"] for r in open_run(run).results.of("fairpair_perturbed")
    ]
    assert all("\u2028" in text for text in texts)


def cut(run: Path) -> None:
    content = (run / "results.jsonl").read_bytes()
    (run / "results.jsonl").write_bytes(content[: len(content) // 2])


def cut_without_record(run: Path) -> None:
    cut(run)
    (run / "progress.jsonl").unlink()


def no_unit(run: Path) -> None:
    (run / "progress.jsonl").write_text("")


def not_a_row(run: Path) -> None:
    (run / "progress.jsonl").unlink()
    (run / "results.jsonl").write_text("[1, 2]\n")


def damaged_manifest(run: Path) -> None:
    (run / "manifest.json").write_text("{")


def damaged_texts(run: Path) -> None:
    (run / "store" / "r" / "none.jsonl").write_text('{"edit": "none", "dat')


def no_run(run: Path) -> None:
    (run / "results.jsonl").unlink()


FAULTS = {
    "cut off": (cut, "shorter than its progress record"),
    "cut off, without a record": (cut_without_record, "is not a result row"),
    "nothing finished": (no_unit, "no finished unit"),
    "other JSON": (not_a_row, "line 1 is not a result row"),
    "damaged manifest": (damaged_manifest, "manifest.json is damaged"),
    "damaged texts": (damaged_texts, "none.jsonl, line 1 is not JSON"),
    "no run": (no_run, "is no run folder"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_run_gets_one_line_and_its_old_report_stays(
    fault: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "report.html").write_text("the good one")
    damage, hint = FAULTS[fault]
    damage(run)
    with pytest.raises(SystemExit) as stop:
        main(["report", str(run)])
    said = capsys.readouterr().err.strip()
    assert stop.value.code == 2
    assert len(said.splitlines()) == 1
    assert hint in said
    assert (run / "report.html").read_text() == "the good one"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such folder"):
        open_run(tmp_path / "nowhere")


def test_a_report_needs_no_manifest(run: Path) -> None:
    (run / "manifest.json").unlink()
    assert write_report(open_run(run)).is_file()


def test_a_folder_that_cannot_be_written_is_named(run: Path) -> None:
    (run / "report.html.tmp").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        write_report(open_run(run))


def test_the_manifest_is_shown_with_its_command(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    text = write_report(open_run(run)).read_text("utf-8")
    assert manifest["model_hash"] in text
    assert "countergen-edit audit seed=0" in text
