"""Prompts of one's own are audited without what grammar needs being lost, and the run says how."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from countergen_edit import api
from countergen_edit.cli.composing import checked_config
from countergen_edit.cli.main import main
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.models import LanguageModel
from countergen_edit.runs.run import open_run
from tests.data.test_splits import NAMES, TEMPLATES, file_of
from tests.printed import files
from tests.test_docs import PAGES

SMALL = [
    "eraser=preserving",
    "metric=r",
    "cost=agreement",
    "edit.layers=[5]",
    "names={fit: 12, few: 4, agreement: 4, validation: 4, test: 6}",
]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> str:
    texts = [text.format(name) for text, name in zip(TEMPLATES, NAMES, strict=False)]
    return file_of(tmp_path_factory.mktemp("own"), texts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fit", "said"),
    [
        ([], "The run fits on occupations_fit, traits_fit, hobbies_fit ("),
        (["data.fit=own"], "The run fits on own_fit (8 prompts); keeps agreement_fit ("),
    ],
)
def test_own_prompts_keep_grammar_and_the_run_says_what_it_is_made_of(
    fit: list[str],
    said: str,
    prompts: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "run"
    assert main(["audit", f"data={prompts}", *fit, *SMALL, f"run_dir={run}"]) == 0
    [line] = [x for x in capsys.readouterr().out.splitlines() if x.startswith("The run fits")]
    assert line.startswith(said)
    assert "keeps agreement_fit (" in line
    assert "tests on own" in line
    rows = open_run(run).results.rows
    edit = next(row.edit for row in rows if row.eraser == "preserving")
    agreement = {
        row.group_a: row.value
        for row in rows
        if row.metric == "agreement" and row.edit == edit and row.split == "test"
    }
    assert agreement.keys() == {"female", "male"}
    # An edit that is not told what grammar needs leaves 0.34 of men; random ones keep all of it.
    assert all(value is not None and value > 0.97 for value in agreement.values()), agreement


SHARED = Task.from_config("gender", "contexts").fit[0].texts[0]
"""A prompt of a default fitting set."""


@pytest.mark.parametrize(
    ("text", "axis", "reason"),
    [
        ("Jane left", [], ""),
        ("Ava left", [], ""),  # edits are chosen with her name, which is a warning alone
        ("Emma left", [], "name 'Emma' is in fitting set 'occupations_fit' and in test set 'own'"),
        (SHARED, [], "is in fitting set"),
        ("Jane met Susan", ["axis=mine.yaml"], "axis 'mine' has no data of its own"),
        ("It rained", [], "changes nothing in 'It rained'"),
    ],
)
def test_check_and_audit_agree_on_what_they_refuse(
    text: str,
    axis: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(file_of(tmp_path, [text])).name
    groups = "{a: {names: {test: [Jane]}}, b: {names: {test: [John]}}}"
    Path("mine.yaml").write_text(f"{{name: mine, groups: {groups}, substitution: {{}}}}")
    code = 0
    try:
        code = main(["check", path, *axis])
    except SystemExit as end:
        code = int(str(end.code))
    said = " ".join(capsys.readouterr().out.split())
    for eraser in ("leace", "none"):
        words = overrides_of("audit", [f"data={path}", *axis, f"eraser={eraser}"])
        leaks = "is in fitting set" in reason
        if not reason or (leaks and eraser == "none"):
            checked_config("audit", words)
        else:
            with pytest.raises(UserError, match=re.escape(reason)):
                checked_config("audit", words)
    assert (reason in said) if reason else "An audit refuses them" not in said
    assert code == (1 if reason or "no warnings." not in said else 0)


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.csv"])
def test_the_default_model_knows_the_words_of_the_page_s_prompts(
    name: str, tmp_path: Path, testbed: LanguageModel
) -> None:
    (tmp_path / name).write_text(files(PAGES["own_data.md"])[name], "utf-8")
    task = api.task("gender", str(tmp_path / name), names={"test": 2})
    assert api.in_vocabulary(testbed, task, keys=("fit", "validation")).warnings == ()
