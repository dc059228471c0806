"""Prompts of a user's own outside a model's vocabulary are reported with their number and words."""

from __future__ import annotations

from pathlib import Path

import countergen_edit as ce
from countergen_edit import api
from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.prompt_check import vocabulary_warnings
from countergen_edit.models import LanguageModel

WORDS = {"she", "he", "works", "as", "a", "nurse"}


def prompt(end: str, output: str) -> Sample:
    sides = (Variation("female", f"She {end}"), Variation("male", f"He {end}"))
    return Sample(end, (output,), sides)


def test_each_set_with_words_outside_has_a_line() -> None:
    groups = ("female", "male")
    known = CounterfactualSet("known", "gender", groups, (prompt("works as", " a nurse"),))
    samples = (*known.samples, prompt("triages as", " a nurse"), prompt("works as", " an intern"))
    mixed = CounterfactualSet("mixed", "gender", groups, samples)
    assert [*vocabulary_warnings([known, mixed], WORDS, "testbed")] == [
        "2 of 3 prompts of mixed contain words outside the vocabulary of testbed "
        "('triages', 'an'): their figures mean nothing."
    ]


def test_a_run_keeps_its_warnings(testbed: LanguageModel, tmp_path: Path) -> None:
    templates = ["{name} is excellent at"]
    test = [{"source": "templates", "templates": templates, "outputs": ["triage"], "name": "mine"}]
    data = {"fit": None, "validation": None, "test": test}
    task = api.in_vocabulary(testbed, ce.task("gender", data, names={"test": 2}), keys=())
    run = ce.audit(testbed, task, [], ["r"], folder=tmp_path / "run")
    spaces, words = run.manifest["warnings"]
    assert spaces.startswith("1 of 1 prompts of mine have outputs without a leading space")
    assert words.startswith("1 of 1 prompts of mine contain words outside the vocabulary of")
    assert run.findings[-2:] == (spaces, words)
