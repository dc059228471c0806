"""A table of sentences of many kinds: each counterpart is right, or `check` reports it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from countergen_edit.core.errors import UserError
from countergen_edit.data.prompt_check import check_prompts
from countergen_edit.data.text.substitution import Substitution
from tests.data.test_splits import file_of
from tests.gender import SPANISH, SWAP

TABLE = yaml.safe_load(Path(__file__).with_name("substitution_table.yaml").read_text("utf-8"))
CLEAR = {text: right for rows in TABLE["clear"].values() for text, right in rows.items()}
DOUBTFUL = {text: right for rows in TABLE["doubtful"].values() for text, right in rows.items()}
ENDS = [(text, output, side) for text, of in TABLE["ends"] for output, side in of.items()]
SPANISH_TABLE = yaml.safe_load(Path(__file__).with_name("spanish_table.yaml").read_text("utf-8"))
SPANISH_PAIRS = [pair for rows in SPANISH_TABLE["clear"].values() for pair in rows.items()]
HANDLED = ("both groups are in it", "edits are fitted on", "edits are chosen with")
"""Findings that say nothing of the counterpart."""


def findings(folder: Path, texts: list[str], swap: Substitution = SWAP) -> dict[str, list[str]]:
    path = file_of(folder, texts, outputs=[" So."])
    checked = zip(texts, check_prompts(path, swap), strict=True)
    return {text: [*one.findings] for text, one in checked}


@pytest.mark.parametrize(("text", "right"), CLEAR.items())
def test_a_clear_sentence_has_its_counterpart(text, right):
    assert SWAP(text) == right
    assert SWAP(SWAP(right)) == right


@pytest.mark.parametrize(("left", "right"), TABLE["both_ways"].items())
def test_each_side_becomes_the_other(left, right):
    assert (SWAP(left), SWAP(right)) == (right, left)


@pytest.mark.parametrize(
    ("text", "swapped"), [*TABLE["one_way"].items(), *((text, text) for text in TABLE["same"])]
)
def test_what_shows_no_group_stays_and_many_words_share_a_partner(text, swapped):
    assert SWAP(text) == swapped


def test_few_clear_sentences_are_questioned(tmp_path):
    found = findings(tmp_path, [*CLEAR])
    own = {text: [f for f in of if not f.startswith(HANDLED)] for text, of in found.items()}
    assert sum(map(bool, own.values())) <= 0.01 * len(CLEAR), {t: f for t, f in own.items() if f}


def test_every_doubtful_sentence_is_questioned(tmp_path):
    found = findings(tmp_path, [*DOUBTFUL])
    assert [text for text, of in found.items() if not of] == []


@pytest.mark.parametrize(("text", "output", "side"), ENDS)
def test_prompt_and_output_decide_together(text, output, side):
    if side is None:
        with pytest.raises(
            UserError, match=r"may become '(him|his)' or '(him|his)', and the output"
        ):
            SWAP.pair(text, output)
    else:
        assert side in SWAP.pair(text, output)
        assert text in SWAP.pair(text, output)


def test_spanish_sentences_have_their_counterparts_both_ways():
    assert len(SPANISH_PAIRS) >= 120
    wrong = {
        text: (SPANISH(text), SPANISH(right))
        for text, right in SPANISH_PAIRS
        if (SPANISH(text), SPANISH(right)) != (right, text)
    }
    assert not wrong
    assert [text for text in SPANISH_TABLE["same"] if SPANISH(text) != text] == []


def test_spanish_that_cannot_be_decided_is_questioned_and_no_more(tmp_path):
    left, right = zip(*SPANISH_PAIRS, strict=True)
    for texts, expected in ((SPANISH_TABLE["doubtful"], True), (left, False), (right, False)):
        found = findings(tmp_path, [*texts], SPANISH)
        own = {t: [f for f in of if not f.startswith(HANDLED)] for t, of in found.items()}
        assert {t: f for t, f in own.items() if bool(f) != expected} == {}
