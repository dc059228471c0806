"""`eraser=none` measures an unedited model, one of any kind, and says nothing about edits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from countergen_edit import api
from countergen_edit.cli.main import main
from countergen_edit.reports.blocks import Table, Words, plain
from countergen_edit.reports.sections import sections
from countergen_edit.runs.run import Run
from tests.cli.test_mistakes import fails
from tests.tiny_models import tiny_model_dir

pytestmark = pytest.mark.slow  # every test is of whole runs

SMALL = [
    "metric.fairpair.n=4",
    "metric.fairpair.occupations=2",
    "metric.fairpair.max_new_tokens=4",
    "+metric.fairpair.permutations=20",
    "metric.cid.names=1",
    "metric.cid.strengths=[0,10]",
    "metric.cid.max_new_tokens=4",
]
GENERATING = ["eraser=none", "metric=[fairpair,cid]", *SMALL]
FEW = "names={fit: 8, few: 4, agreement: 2, validation: 4, test: 6}"
ABOUT_EDITS = re.compile(r"\b(edit|edits|edited|eraser|erasers|no edit|gone|removed)\b", re.I)


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model_dir("t5", tmp_path_factory.mktemp("models") / "t5")


@pytest.fixture(scope="module")
def runs(t5: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An audit of a T5 and one of the testbed, measured as they came."""
    folder = tmp_path_factory.mktemp("runs")
    every = "metric=[r,paraphrases,fairpair,cid,off_target]"
    commands = {
        "t5": [f"model={t5}", *GENERATING],
        "testbed": ["data=testbed", "eraser=none", every, *SMALL, FEW],
    }
    for name, words in commands.items():
        assert main(["audit", *words, f"run_dir={folder / name}"]) == 0
    return {name: folder / name for name in commands}


def said_of(run: Run) -> list[str]:
    """All that a report says of what was measured: not what the run depended on."""
    texts = [*run.findings]
    for section in sections(run):
        for block in section.unfolded if section.name not in ("run", "terms") else ():
            if isinstance(block, Words):
                texts += block.sentences
                continue
            texts += [block.title, block.note]
            if isinstance(block, Table):
                texts += [*block.columns, *(plain(row[0]) for row in block.rows)]
    return texts


def test_a_t5_is_measured_from_the_command_line_and_not_measured_again(
    t5: Path, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    before = (runs["t5"] / "results.jsonl").read_bytes()
    assert main(["audit", f"model={t5}", *GENERATING, f"run_dir={runs['t5']}"]) == 0
    assert (runs["t5"] / "results.jsonl").read_bytes() == before
    said = " ".join(capsys.readouterr().out.split())
    assert f"Not measured on {t5}, as it is an encoder-decoder model: agreement, perplexity" in said
    assert "F = B²/(V_gp V_pg) above 1" in said
    assert "Contrastive decoding" in said


@pytest.mark.parametrize("name", ["t5", "testbed"])
def test_the_report_says_nothing_about_edits(name: str, runs: dict[str, Path]) -> None:
    run = api.load_run(runs[name])
    assert not [text for text in said_of(run) if ABOUT_EDITS.search(text)]
    names = [section.name for section in sections(run)]
    assert {"overview", "fairpair", "cid", "run"} <= {*names}
    assert not {"search", "costs", "layers"} & {*names}
    assert ("bias" in names) == (name == "testbed")
    tables = [b for s in sections(run) for b in s.blocks if isinstance(b, Table)]
    assert all(table.rows and table.columns for table in tables)
    assert run.best is None
    assert run.findings
    assert "<title>" in (runs[name] / "report.html").read_text("utf-8")


def test_the_overview_lists_every_main_figure_with_its_truth(runs: dict[str, Path]) -> None:
    run = api.load_run(runs["testbed"])
    [overview] = [section for section in sections(run) if section.name == "overview"]
    [table] = overview.tables()
    assert table.columns == ("", "set", "planted", "unedited")
    figures = [f"{plain(row[0])}: {plain(row[1])}" for row in table.rows]
    assert any(figure.startswith("group effect") for figure in figures)
    assert "costs: perplexity of neutral text" in figures
    assert not any("ratio" in figure or "KL" in figure for figure in figures)


def test_runs_without_edits_compare_with_each_other_and_with_an_audit(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = tmp_path / "audit"
    edited = ["eraser=leace", "edit.layers=[1]", "metric=r", "data=testbed", "cost=agreement", FEW]
    assert main(["audit", *edited, f"run_dir={audit}"]) == 0
    capsys.readouterr()
    for others in ([runs["t5"], runs["testbed"]], [runs["testbed"], audit]):
        assert main(["compare", *map(str, others)]) == 0
    assert "unedited" in capsys.readouterr().out
    paired = api.compare(runs["testbed"], audit).tables["paired"]
    sides = dict.fromkeys(plain(row[0]) for row in paired.rows)
    assert [*sides] == ["audit with leace-1@resid_post.1 − testbed", "audit unedited − testbed"]
    alike = {plain(row[2]) for row in paired.rows if " with " not in plain(row[0])}
    assert alike == {"0.000"}  # one model: nothing differs


def test_what_cannot_be_measured_names_what_can(
    t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = fails(capsys, "audit", f"model={t5}", "eraser=none", "metric=[r,cid]")
    assert "metric=r needs likelihoods" in said
    assert "metric=[fairpair,cid]" in said
    said = fails(capsys, "audit", f"model={t5}", "metric=[fairpair,cid]")
    assert "eraser=none metric=[fairpair,cid]" in said


def test_no_edit_of_it_can_be_saved(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["edit", f"run={runs['testbed']}", f"save={tmp_path / 'edited'}"]) == 2
    assert "made no edit: nothing to save" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["eraser=null", "eraser=[]", "eraser=[none]"])
def test_no_eraser_is_written_in_several_ways(word: str) -> None:
    from countergen_edit.cli.overrides import overrides_of
    from countergen_edit.cli.study import study_settings
    from tests.cli.test_conf import composed

    ways = [
        study_settings(composed("audit", *overrides_of("audit", [way]))).config
        for way in (word, "eraser=none")
    ]
    assert ways[0] == ways[1]


def test_python_takes_no_eraser_either(tmp_path: Path) -> None:
    traits = [{"source": "testbed", "family": "traits"}]
    task = api.task("gender", {"fit": traits, "validation": traits, "test": traits})
    run = api.audit("testbed", task, metrics=["r", "agreement"], folder=tmp_path / "run")
    assert not run.edits
    assert {row.split for row in run.results.rows} == {"test"}
    assert run.manifest["names"]["gender"]["fit"] == {"female": [], "male": []}
