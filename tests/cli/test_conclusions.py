"""The sentences of a run agree with each other: one decision, one count, the same rows."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest

from countergen_edit import api
from countergen_edit.cli.main import main
from countergen_edit.data.axis import SPLITS
from countergen_edit.data.axis_config import axis_config
from countergen_edit.reports.render.html import REPORT
from tests.cli.test_mistakes import fails

TRAITS = [f"data.{split}=[{{source:testbed,family:traits}}]" for split in SPLITS]
FEW = "names={fit: 24, few: 8, agreement: 8, validation: 12, test: 6}"
QUICK = ["metric=[r]", "cost=[agreement,kl]", FEW]
AUDIT = ["audit", "eraser=none", *QUICK, "texts=testbed"]
OUTPUTS = [" a nurse", " a teacher", " an engineer", " a mechanic"]
WORDS = [{"input": f"The {who} works as", "outputs": OUTPUTS} for who in ("woman", "man")]
UNKNOWN = [
    {"input": f"{prompt} repaired", "outputs": [" spaceships", " satellites"]}
    for prompt in ("The quantum astronaut Susan", "Grumpy zoologist Kevin")
]
NAMES = axis_config("gender")["groups"]


def file_of(folder: Path, lines: list[dict[str, object]], name: str) -> str:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return f"data={path}"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main([*words]) == 0
    return " ".join("".join(capsys.readouterr()).split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unedited run, and one of a search with its checkpoint."""
    place = tmp_path_factory.mktemp("runs")
    assert main([*AUDIT, *TRAITS, f"run_dir={place / 'before'}"]) == 0
    search = ["debias", "eraser=preserving", "form=carried", "layers=[4]", *QUICK, *TRAITS]
    assert main([*search, f"run_dir={place / 'after'}", f"save={place / 'debiased'}"]) == 0
    return place


@pytest.mark.slow
def test_an_unedited_run_is_compared_with_the_selected_edit_of_another(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All prompts are shared, so that the difference is that of the two runs' own figures."""
    printed = said(capsys, "compare", str(runs / "before"), str(runs / "after"))
    best = api.load_run(runs / "after").best
    assert f"after with {best.label} against before, group effect: lower on traits." in printed
    assert "after unedited against before, group effect: equal on traits." in printed
    effects = [
        row.value
        for run, edit in (("before", "none"), ("after", best.named.id))
        for row in api.load_run(runs / run).results.of("group_effect", edit=edit)
    ]
    rows = api.compare(runs / "before", runs / "after").to_frame()
    rows = rows[rows.metric == "group_effect_difference"]
    [first, _] = rows.itertuples()  # the selected edit comes first
    assert (first.edit, first.value) == (best.named.id, pytest.approx(effects[1] - effects[0]))
    backwards = said(capsys, "compare", str(runs / "after"), str(runs / "before"))
    assert f"before against after with {best.label}, group effect: higher on traits." in backwards


@pytest.mark.slow
@pytest.mark.parametrize("command", ["sweep", "debias"])
def test_what_test_data_cannot_show_is_neither_best_nor_saved(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two templates without names, no change is significant; the mean falls all the same."""
    words = [file_of(tmp_path, WORDS, "words.jsonl"), "texts=testbed", "eraser=leace", "layers=[4]"]
    words += [*QUICK, *TRAITS[:2], "cost.agreement.budget=0.6", f"run_dir={tmp_path / 'run'}"]
    save = ["form=carried", f"save={tmp_path / 'saved'}"] if command == "debias" else []
    with pytest.raises(SystemExit, match="1") if save else contextlib.nullcontext():
        main([command, *words, *save])
    printed = " ".join("".join(capsys.readouterr()).split())
    assert "No edit is recommended: leace (rank 1) shows nothing" in printed
    assert "Selected on validation data: leace-1@resid_post.4 removes" in printed
    assert "Best: " not in printed
    assert "Save it" not in printed
    assert not (tmp_path / "saved").exists()
    run = api.load_run(tmp_path / "run")
    assert (run.best, run.verdict.lines[0][:23]) == (None, "No edit is recommended:")
    assert "recommends no edit" in fails(
        capsys, "edit", f"run={tmp_path / 'run'}", f"save={tmp_path / 'saved'}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", ["testbed", "debiased"])
def test_prompts_out_of_vocabulary_are_said_and_lead_to_no_edit(
    model: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default model and its checkpoint have one vocabulary."""
    name = str(runs / model) if model == "debiased" else model
    own = [file_of(tmp_path, UNKNOWN, "own.jsonl"), f"model={name}", *QUICK, "texts=testbed"]
    run = f"run_dir={tmp_path / 'run'}"
    # Even with an eraser nothing is fitted.
    printed = said(capsys, "audit", *own, "eraser=leace", run)
    assert "2 of 2 prompts of own contain words outside the vocabulary of" in printed
    assert "countergen-edit debias" not in printed
    assert "Recommended" not in printed
    assert api.load_run(tmp_path / "run").results.is_unedited
    if model == "testbed":
        assert "Next, a model that knows these words: countergen-edit audit model=NAME" in printed
        error = fails(capsys, "debias", *own, f"run_dir={tmp_path / 'other'}")
        assert "words of own, such as" in error
        assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_the_page_begins_with_the_conclusion_and_one_count_holds_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ["traits", "stereotypes", "drinks"]
    test = ",".join(f"{{source:testbed,family:{name}}}" for name in sets)
    words = ["audit", "eraser=preserving", "edit.layers=[4]", *QUICK, f"data.test=[{test}]"]
    words.append("cost.agreement.budget=0.3")
    printed = said(capsys, *words, f"run_dir={tmp_path / 'run'}")
    lines = api.load_run(tmp_path / "run").verdict.lines
    assert lines[0].startswith("Recommended: preserving (rank")
    assert "Biased: on 1 of 3 sets" in printed
    [outcome] = [line for line in lines if line.startswith("Bias under")]
    assert ", 3 sets: " in outcome
    assert "not significant before the edit on 1 (drinks)" in outcome
    changes = outcome.partition("; random")[0]
    assert sum(map(int, re.findall(r" on (\d+) \(", changes))) == 3
    page = (tmp_path / "run" / REPORT).read_text("utf-8")
    assert page.index("<strong>Recommended:") < page.index("<strong>Biased:")
    assert 'name="description" content="Recommended: preserving' in page
