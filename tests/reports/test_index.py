"""The list of a folder's runs tells each with its verdict, and names what is broken."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from countergen_edit.cli.main import main
from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import hold
from countergen_edit.decisions import JUDGEMENT, TOO_DEAR
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Link
from countergen_edit.reports.index import list_runs, section
from countergen_edit.reports.run import open_run
from countergen_edit.runs.files import ORIGINAL
from tests.reports.runs import LEACE, MANIFEST, audit_rows, make_run


def judged(word: str, *, named: bool) -> Row:
    detail = {
        "word": word,
        "sets": {"jobs": "removed"},
        "degradations": {"agreement": 0.1},
        "budgets": {"agreement": 0.01},
        "over": [] if named else ["agreement"],
        "maybe": [],
        "named": named,
    }
    return Row(JUDGEMENT, 1.0, split="test", detail=detail, **LEACE)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs that are whole, in two of them an edit was judged; and five that are not."""
    folder = tmp_path_factory.mktemp("work") / "runs"
    for name, word, named in (("good", "recommended", True), ("dear", TOO_DEAR, False)):
        rows = [*audit_rows(), judged(word, named=named)]
        open_run(make_run(folder / "edits" / name, rows, outputs=1)).report()
    plain = [row for row in audit_rows() if row.edit == "none"]
    checkpoint = make_run(folder / "my checkpoint", plain, outputs=1)
    make_run(checkpoint / ORIGINAL, plain, outputs=1)
    open_run(checkpoint).report()
    whole = make_run(folder / "plain", plain, outputs=1)
    make_run(folder / "no page", plain, outputs=1)
    open_run(whole).report()
    for name in ("cut", "damaged", "other", "empty"):
        shutil.copytree(whole, folder / name)
    content = (folder / "cut" / "results.jsonl").read_bytes()
    (folder / "cut" / "results.jsonl").write_bytes(content[: len(content) // 2])
    (folder / "damaged" / "manifest.json").write_text("{")
    old = MANIFEST | {"schema": 1, "versions": {"countergen-edit": "0.1.0"}}
    (folder / "other" / "manifest.json").write_text(json.dumps(old))
    (folder / "empty" / "progress.jsonl").write_text("")
    (folder / "no run").mkdir()
    (folder / "no run" / "manifest.json").write_text("{}")
    return folder


def test_each_run_is_told_with_its_verdict(runs: Path) -> None:
    found = {run.path.name: run for run in list_runs(runs) if not run.wrong}
    assert set(found) == {"good", "dear", "my checkpoint", "plain"}
    verdicts = {name: (run.verdict, run.edit) for name, run in found.items()}
    assert verdicts["good"] == ("recommended", "leace-1")
    assert verdicts["dear"] == ("costs too much", "")
    assert verdicts["plain"] == ("biased", "")
    assert {run.command for run in found.values()} == {"audit"}
    assert all(run.says for run in found.values())
    assert found["good"].says == open_run(found["good"].path).verdict.lines[0]


def test_what_is_broken_or_not_finished_says_so(runs: Path) -> None:
    wrong = {run.path.name: run.wrong for run in list_runs(runs) if run.wrong}
    assert set(wrong) == {"cut", "damaged", "other", "empty", "no page"}
    assert wrong["cut"].startswith("broken: results.jsonl is shorter")
    assert "manifest.json is damaged" in wrong["damaged"]
    assert "countergen-edit 0.1.0" in wrong["other"]
    assert wrong["empty"].startswith("unfinished")
    assert "countergen-edit report" in wrong["no page"]


def test_a_run_that_is_being_written_is_running(runs: Path) -> None:
    place = runs / "plain"
    (place / ".lock").touch()
    code = (
        "import sys; from pathlib import Path; from countergen_edit.reports.index import listed; "
        "print(listed(Path(sys.argv[1])).wrong)"
    )
    lock = hold(place, place / ".lock", wait=False)
    try:
        said = subprocess.run(
            [sys.executable, "-c", code, place], capture_output=True, text=True, check=True
        )
    finally:
        lock.release()
    assert said.stdout.startswith("running")


def test_the_index_leads_to_every_page(runs: Path) -> None:
    [table, broken] = section(list_runs(runs), runs, runs).tables()
    links = [row[0] for row in table.rows]
    assert {link.address for link in links if isinstance(link, Link)} == {
        "edits/good/report.html",
        "edits/dear/report.html",
        "my%20checkpoint/report.html",
        "plain/report.html",
    }
    assert len(broken.rows) == 5


def test_the_list_needs_no_model_library() -> None:
    code = (
        "import sys; from countergen_edit.reports import index; "
        "from countergen_edit.reports.render import html, terminal; "
        "heavy = {'torch', 'pandas', 'matplotlib'} & {*sys.modules}; assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_prints_and_writes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", str(runs)]) == 0
    printed = capsys.readouterr().out
    assert "recommended: leace-1" in printed
    assert "4 runs, and 5 not finished or broken." in printed
    page = (runs / "index.html").read_text("utf-8")
    assert '<a href="edits/good/report.html">' in page
    assert main(["runs", str(runs)]) == 0  # its own page it replaces


def test_another_page_of_that_name_stays(runs: Path, tmp_path: Path) -> None:
    place = tmp_path / "runs"
    shutil.copytree(runs / "plain", place / "plain")
    (place / "index.html").write_text("<html>mine</html>")
    assert main(["runs", str(place)]) == 2
    assert (place / "index.html").read_text() == "<html>mine</html>"


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not there"):
        list_runs(tmp_path / "nowhere")
    with pytest.raises(UserError, match="holds no run"):
        list_runs(tmp_path)
