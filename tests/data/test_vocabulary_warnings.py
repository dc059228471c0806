"""Prompts of a user's own outside a model's vocabulary are reported with their number and words."""

from __future__ import annotations

from countergen_edit.data.counterfactual import CounterfactualSet, Sample, Variation
from countergen_edit.data.untaught import vocabulary_warnings

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
