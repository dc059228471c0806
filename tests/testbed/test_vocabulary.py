"""A model is asked what it was taught the words of, and told so where it was not."""

from __future__ import annotations

import pytest

from countergen_edit import api
from countergen_edit.data.task import Task
from countergen_edit.testbed import load_truth
from countergen_edit.testbed.vocabulary import taught_share, unknown_words, vocabulary

WORDS = vocabulary(load_truth())
FEW = {"fit": 4, "few": 2, "validation": 3, "test": 4}


def test_every_set_that_was_planted_is_in_words_of_the_corpus() -> None:
    for data in Task.from_config("gender", "contexts").every_set:
        if data.axis == "gender":
            assert taught_share(WORDS, data) == 1.0
    for data in Task.from_config("nationality", "nationality").test:
        assert taught_share(WORDS, data) == 1.0


@pytest.mark.parametrize("axis", ["race", "religion", "age"])
def test_what_it_was_never_taught_is_left_out(axis: str) -> None:
    model = api.load("testbed")
    task = api.taught(model, Task.from_config(axis, names=FEW))
    assert not task.test
    assert not task.fit
    assert len(task.untaught) == len(Task.from_config(axis, names=FEW).test)


def test_of_an_axis_that_it_knows_a_part_of_that_part_is_asked() -> None:
    task = api.taught(api.load("testbed"), Task.from_config("nationality", names=FEW))
    assert [data.name for data in task.test] == ["reasons_test"]
    assert {one.data.name for one in task.untaught} >= {"natural_names_test"}


def test_a_word_that_stands_in_no_sentence_is_not_known() -> None:
    assert unknown_words(WORDS, "Jane is a nurse.") == []
    assert unknown_words(WORDS, "Jane is a Buddhist nurse.") == ["buddhist"]
