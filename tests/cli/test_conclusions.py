"""What a run prints agrees with itself, and every command that it prints can be pasted."""

import io
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from countergen_edit import api
from countergen_edit.decisions import HARMFUL, JUDGEMENT, OVER_BUDGET, RECOMMENDED
from countergen_edit.reports.findings import MOST_LINES
from countergen_edit.testbed import directory
from tests.cli.support import call, fails, names, prompt_file, said, sets

pytestmark = pytest.mark.slow  # every test is of whole runs

QUICK = ["metric=[r]", "cost=[agreement,kl]", names(24, 12, 6, 8, few=8)]
TRAITS = sets("traits")
UNKNOWN = ["The quantum astronaut Susan repaired", "Grumpy zoologist Kevin repaired"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    search = ["eraser=preserving", "form=carried", "layers=[4]", *QUICK, *TRAITS]
    said("debias", *search, f"save={place / 'debiased'}", f"run_dir={place / 'after'}")
    return place


@pytest.mark.parametrize("command", ["sweep", "debias"])
def test_what_test_data_cannot_show_is_neither_best_nor_saved(command):
    """Of two templates without names, no change is significant; the mean falls all the same."""
    outputs = [" a nurse", " a teacher", " an engineer", " a mechanic"]
    data = prompt_file("words.jsonl", ["The woman works as", "The man works as"], *outputs)
    words = [data, "texts=testbed", "eraser=leace", "layers=[4]", *QUICK, *TRAITS[:2]]
    words += ["cost.agreement.budget=0.6", "run_dir=run"]
    is_search = command == "debias"
    words += ["form=carried", "save=saved"] if is_search else []
    printed = said(command, *words, code=int(is_search))
    assert "No edit is recommended: leace (rank 1) shows nothing" in printed
    assert "Selected on validation data: leace-1@resid_post.4 removes" in printed
    assert "Best: " not in printed
    assert "Save it" not in printed
    assert not Path("saved").exists()
    run = api.load_run("run")
    assert (run.best, run.verdict.lines[0][:23]) == (None, "No edit is recommended:")
    assert "recommends no edit" in fails("edit", "run=run", "save=saved")


@pytest.mark.parametrize("model", ["testbed", "debiased"])
def test_prompts_out_of_vocabulary_are_said_and_lead_to_no_edit(model, runs):
    """The default model and its checkpoint have one vocabulary."""
    name = runs / model if model == "debiased" else model
    data = prompt_file("own.jsonl", UNKNOWN, " spaceships", " satellites")
    words = [data, f"model={name}", *QUICK, "texts=testbed"]
    printed = said("audit", *words, "eraser=leace", "run_dir=run")  # even so nothing is fitted
    assert "2 of 2 prompts of own contain words outside the vocabulary of" in printed
    assert "countergen-edit debias" not in printed
    assert "Recommended" not in printed
    assert api.load_run("run").results.is_unedited
    if model == "testbed":
        assert "Next, a model that knows these words: countergen-edit audit model=NAME" in printed
        assert "words of own, such as" in fails("debias", *words, "run_dir=other")
        assert not Path("other").exists()


OWN = '''
from countergen_edit.erasers import AffineErasure, MeanDifference


class Doubled(MeanDifference):
    """Adds what mean_difference takes."""

    def fit(self, X, y):
        fitted = super().fit(X, y).erasure_
        self.erasure_ = AffineErasure(-fitted.left, fitted.right, fitted.mean)
        return self
'''
SHARED = {
    "metric": "r",
    "cost": "[agreement,perplexity,kl]",
    "names": "{fit: 20, few: 6, agreement: 4, validation: 4, test: 12}",
    "edit.layers": "[3]",
    "data.fit": "[{source: testbed, family: occupations}]",
    "data.validation": "[]",
    "data.test": "[{source: testbed, family: occupations}]",
}
STEREOTYPES = "[{source: testbed, family: occupations},{source: testbed, family: stereotypes}]"
CASES = {
    "one recommended, one breaks grammar, one does harm": (
        {"eraser": "[rlace,preserving,own.py:Doubled]"},
        {"rlace": OVER_BUDGET, "preserving": RECOMMENDED, "Doubled": HARMFUL},
        ["Recommended: preserving", "Not recommended: rlace"],
    ),
    "half of grammar may go": (
        {"eraser": "rlace", "cost.agreement.budget": "0.7"},
        {"rlace": RECOMMENDED},
        ["Recommended: rlace"],
    ),
    "stereotypes without names stay": (
        {"eraser": "preserving", "data.test": STEREOTYPES},
        {"preserving": RECOMMENDED},
        ["removed on 1 (occupations", "partly removed on 1 (stereotypes"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_ends_with_its_verdict(case):
    """Which follows from what was planted."""
    Path("own.py").write_text(OWN, "utf-8")
    settings, edits, says = CASES[case]
    words = [f"{key}={value}" for key, value in {**SHARED, **settings, "run_dir": "run"}.items()]
    printed = said("audit", *words)
    run = api.load_run("run")
    judged = run.results.of(JUDGEMENT)
    assert {run.results.records[row.edit].eraser: row.detail["word"] for row in judged} == edits
    for start in says:
        assert any(start in sentence for sentence in run.findings), run.findings
    assert len(run.verdict.lines) <= MOST_LINES
    assert all(" ".join(line.split()) in printed for line in run.verdict.lines)


NAME = """my {} (v2), final=1 "x" it's [a] ünï"""
SMALL = ["eraser=preserving", "edit.layers=[4]", "metric=r", "cost=agreement", "texts=testbed"]
SMALL += [names(24, 4, 4, 8, few=8), *sets("traits", ["fit", "validation"])]
PEOPLE = ["Jane", "Anna", "Laura", "Julia", "Linda", "Susan", "Nancy", "Helen"]


def printed(*words):
    """The words of each command that a command prints."""
    ended = call(*words)
    assert ended.code == 0, ended.err
    commands = re.findall(r"countergen-edit (\w+ .*?)\)?$", ended.out, re.M)
    return [shlex.split(command) for command in commands]


def test_printed_commands_run_as_they_stand(monkeypatch):
    prompts, model, run, saved = (NAME.format(x) for x in ("data.jsonl", "model", "run", "edit"))
    prompts = f"{prompts}.jsonl"
    prompt_file(prompts, [f"{name} is known to be" for name in PEOPLE], " gentle", " bold")
    shutil.copytree(directory(), model)
    audit = ["audit", f"data={prompts}"]
    assert printed("check", prompts) == [audit]
    first, report = printed(*audit, f"model={model}", *SMALL, f"run_dir={run}")
    assert report == ["report", run]
    assert printed(*report) == [[*report, "files=[pdf,latex,evidence]"]]
    if first[0] == "debias":  # the eraser removed nothing for certain
        first = ["edit", f"run={run}", "form=carried", "save=DIR"]
    assert first == ["edit", f"run={run}", "form=carried", "save=DIR"]
    assert printed(*first[:-1], f"save={saved}") == [["chat", saved]]
    both = [run, NAME.format("other")]
    shutil.copytree(*both)
    assert ["compare", *both, "folder=DIR"] in printed("compare", *both)
    said("gate", run, "group_effect=9", "strict=false", f"json={saved}.json")
    assert json.loads(Path(f"{saved}.json").read_text("utf-8"))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    chat = printed("chat", saved, "max_new_tokens=1")
    assert chat == [["audit", f"model={saved}", "eraser=none"]]
