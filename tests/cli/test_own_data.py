"""Prompts of one's own are audited without what grammar needs being lost, and the run says how."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from countergen_edit.cli.composing import checked_config
from countergen_edit.cli.main import main
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from countergen_edit.runs.run import open_run
from tests.data.test_splits import NAMES, TEMPLATES, file_of

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


@pytest.mark.slow
def test_a_run_that_fits_nothing_says_so(
    prompts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"data={prompts}", "eraser=none", "metric=r", f"run_dir={tmp_path / 'run'}"]
    assert main(["audit", *words]) == 0
    assert "Nothing is fitted; tests on own (16 prompts)." in capsys.readouterr().out
    config = json.dumps(open_run(tmp_path / "run").config)
    assert "own.jsonl" in config


@pytest.mark.slow
def test_ten_times_the_prompts_take_little_more_memory(tmp_path: Path) -> None:
    def peak(prompts: int) -> float:
        """MiB that an audit takes."""
        path = tmp_path / f"{prompts}.jsonl"
        outputs = [" a nurse", " an engineer"]
        lines = [
            {"input": f"In house {i} Laura became", "outputs": outputs} for i in range(prompts)
        ]
        path.write_text("\n".join(map(json.dumps, lines)))
        words = [f"data={path}", "texts=testbed", "eraser=none", "metric=r", "cost=kl"]
        program = [sys.executable, "-m", "countergen_edit.cli.main", "audit", *words]
        process = subprocess.Popen(
            [*program, f"run_dir={tmp_path}/{prompts}"], stdout=subprocess.DEVNULL
        )
        _, code, used = os.wait4(process.pid, 0)
        assert code == 0
        return used.ru_maxrss / 1024

    # A table of all people by all outputs would take 122 MiB, and several such were made.
    assert peak(2000) < peak(200) + 150


@pytest.mark.slow
def test_an_audit_says_what_is_doubtful_and_what_few_names_could_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A space at the end, a control token, an output given twice; and no bias with four names."""
    templates = {"source": "templates", "templates": ["{name} said <|im_start|>it was "]}
    entry = templates | {"outputs": ["late", "early", "late"], "name": "mine"}
    (tmp_path / "d.yaml").write_text(json.dumps({"test": [entry]}))
    run, few = tmp_path / "run", "names={fit: 2, few: 2, agreement: 2, validation: 2, test: 4}"
    words = [f"data={tmp_path / 'd.yaml'}", "eraser=none", "metric=r", few, f"run_dir={run}"]
    assert main(["audit", *words]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    begun, _, verdict = printed.partition("Intervals are 95 %")
    for said in ("ends with a space", "'<|im_start|>' is a control token", "'late' is given twice"):
        assert said in begun
        assert said in verdict
    [row] = open_run(run).results.of("group_effect")
    [size] = open_run(run).results.of("detectable_effect")
    assert row.detail["p_adjusted"] > 0.05
    assert f"significant 4 times in 5: mine {size.value:.2f} nats." in verdict
