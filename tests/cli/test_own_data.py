"""Prompts of one's own are audited without what grammar needs being lost, and the run says how."""

import re
from pathlib import Path

import pytest

from countergen_edit.cli.composing import checked_config
from countergen_edit.cli.overrides import overrides_of
from countergen_edit.core.errors import UserError
from countergen_edit.data.task import Task
from tests.cli.support import call, names, rows_of
from tests.data.test_splits import NAMES, TEMPLATES, file_of

SMALL = ["eraser=preserving", "metric=r", "cost=agreement", "edit.layers=[5]"]
SMALL.append(names(12, 4, 6, 4, few=4))


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    texts = [text.format(name) for text, name in zip(TEMPLATES, NAMES, strict=False)]
    return file_of(tmp_path_factory.mktemp("own"), texts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fit", "start"),
    [
        ([], "The run fits on occupations_fit, traits_fit, hobbies_fit ("),
        (["data.fit=own"], "The run fits on own_fit (8 prompts); keeps agreement_fit ("),
    ],
)
def test_own_prompts_keep_grammar_and_the_run_says_what_it_is_made_of(fit, start, prompts):
    ended = call("audit", f"data={prompts}", *fit, *SMALL, "run_dir=run")
    assert ended.code == 0
    [line] = [line for line in ended.out.splitlines() if line.startswith("The run fits")]
    assert line.startswith(start)
    assert "keeps agreement_fit (" in line
    assert "tests on own" in line
    edit = next(row.edit for row in rows_of("run", eraser="preserving"))
    rows = rows_of("run", "agreement", edit=edit, split="test")
    agreement = {row.group_a: row.value for row in rows}
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
def test_check_and_audit_agree_on_what_they_refuse(text, axis, reason, here):
    path = Path(file_of(here, [text])).name
    groups = "{a: {names: {test: [Jane]}}, b: {names: {test: [John]}}}"
    Path("mine.yaml").write_text(f"{{name: mine, groups: {groups}, substitution: {{}}}}")
    ended = call("check", path, *axis)
    printed = " ".join(ended.out.split())
    for eraser in ("leace", "none"):
        words = overrides_of("audit", [f"data={path}", *axis, f"eraser={eraser}"])
        leaks = "is in fitting set" in reason
        if not reason or (leaks and eraser == "none"):
            checked_config("audit", words)
        else:
            with pytest.raises(UserError, match=re.escape(reason)):
                checked_config("audit", words)
    assert (reason in printed) if reason else "An audit refuses them" not in printed
    assert ended.code == (1 if reason or "no warnings." not in printed else 0)
