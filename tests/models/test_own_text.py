"""Text that a model writes itself: of natural openings, about nobody, the same every time."""

from __future__ import annotations

import re

import pytest

from countergen_edit.data.natural import openings
from countergen_edit.data.neutral import parted
from countergen_edit.models import LanguageModel, own_text, split_names, written


def test_openings_begin_every_kind_of_text() -> None:
    assert len(openings()) >= 300
    assert {len(opening.split()) for opening in openings(4)} == {4}


def test_a_model_goes_on_from_openings_the_same_way_twice(testbed: LanguageModel) -> None:
    texts = written(testbed, seed=1, count=12, max_new_tokens=8)
    assert texts == written(testbed, seed=1, count=12, max_new_tokens=8)
    assert texts != written(testbed, seed=2, count=12, max_new_tokens=8)
    assert 3 <= len(texts) <= 12
    assert all(parted(texts).values())


def test_texts_end_with_a_sentence_and_are_about_nobody(
    testbed: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [" is open. It", " is old. She left.", " goes on. It ends! And then", " has no end"]
    monkeypatch.setattr(own_text, "generate", lambda lm, prompts, **settings: said)
    texts = written(testbed, count=4)
    every = openings()
    starts = [every[i * len(every) // 4] for i in range(4)]
    assert texts == [
        f"{starts[0]} is open.",
        f"{starts[2]} goes on. It ends!",
        f"{starts[3]} has no end",
    ]
    assert not any(re.search(r"\bshe\b", text, re.I) for text in texts)


def test_a_name_is_counted_as_it_stands_in_a_sentence(testbed: LanguageModel) -> None:
    counts = split_names(testbed, ["Jane", "John", "Zyxwvut"])
    assert (counts["Jane"], counts["John"]) == (1, 1)
    assert counts["Zyxwvut"] > 1
    for name, count in counts.items():
        spelled = testbed.tokenizer(f"to {name}").input_ids
        assert len(spelled) == count + len(testbed.tokenizer("to").input_ids)
