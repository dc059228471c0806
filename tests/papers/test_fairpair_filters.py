"""FairPair's filters on the paper's Table 2: what its third one compares, and how each judges."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from countergen_edit.data.fairpair import (
    FILTER_UNITS,
    Filter,
    PairedPrompt,
    characters_of,
    dissimilarity,
    word_set,
)
from tests.data.test_perturbation import paper_prompt, to_jane
from tests.gender import SWAP
from tests.papers.source import paper


@dataclass(frozen=True)
class Example:
    """A line of the table."""

    original: str
    perturbed: str
    percent: float
    correct: bool

    @property
    def prompt(self) -> PairedPrompt:
        return paper_prompt(self.original.split(".")[0].rpartition(" ")[2])

    def reason(self, compared: str) -> str | None:
        return Filter(SWAP, compared=compared).reason(self.original, self.perturbed, self.prompt)


@pytest.fixture(scope="module")
def table() -> list[Example]:
    lines = [line.split("\t") for line in paper("fairpair").splitlines()]
    marked = [line for line in lines if len(line) == 4 and line[3] in "✓✗"]
    return [Example(a, b, float(c), d == "✓") for a, b, c, d in marked]


def test_similarity_by_each_unit_is_as_documented(table: list[Example]) -> None:
    alike = {
        unit: [round(100 * (1 - dissimilarity(of(e.original), of(e.perturbed))), 1) for e in table]
        for unit, of in (("characters", characters_of), ("words", word_set))
    }
    assert alike["characters"] == [100.0, 96.9, 89.5, 64.0, 58.3]
    assert alike["words"] == [89.9, 88.7, 75.4, 26.3, 9.9]


@pytest.mark.parametrize("compared", FILTER_UNITS)
def test_each_filter_judges_as_the_table_does(table: list[Example], compared: str) -> None:
    """But characters, which take the third text for the same: what was added has few new ones."""
    judged = [e.reason(compared) for e in table]
    wrong = [r is None for r in judged] != [e.correct for e in table]
    assert wrong == (compared == "characters")
    assert judged[3:] == ["dissimilarity"] * 2
    assert judged[2] == (None if compared == "characters" else "dissimilarity")


def test_the_rules_pass_every_filter_where_texts_are_long(table: list[Example]) -> None:
    for e in table:
        right = to_jane(e.original)
        passed = {
            u: Filter(SWAP, compared=u).reason(e.original, right, e.prompt) for u in FILTER_UNITS
        }
        assert passed["neutral"] is None
        assert passed["characters"] is None or len(e.original) < 100


def test_other_people_keep_their_gender(table: list[Example]) -> None:
    """The paper's GPT-3.5 changed that of two half way through."""
    for e in table[1:3]:
        prompt, rest = e.original.split(".", 1)
        assert to_jane(e.original) == to_jane(prompt) + "." + rest
