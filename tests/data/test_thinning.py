"""Sets with few names: which ones, in what turn, and in pairs."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.data.subsets import few_variations, round_robin
from countergen_edit.data.task import Task
from tests.crossed import crossed


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 14))
def test_in_turn_every_person_is_asked_as_often_as_any_other(
    paraphrases: int, people: int, most: int
) -> None:
    data = round_robin(crossed(paraphrases, people), most)
    asked = Counter(v.name for sample in data.samples for v in sample.variations)
    for sample in data.samples:
        places = [[v.name[1:] for v in sample.of(group) if v.name] for group in "ab"]
        assert places[0] == places[1]
        assert len(places[0]) == min(most, people)
    counts = [asked[f"{group}{i}"] for group in "ab" for i in range(people)]
    assert max(counts) - min(counts) <= 1


@given(st.integers(1, 5), st.integers(2, 9), st.integers(1, 4), st.integers(0, 4))
def test_what_few_keep_more_keep_too(paraphrases: int, people: int, most: int, more: int) -> None:
    data = crossed(paraphrases, people)
    few, many = few_variations(data, most, 3), few_variations(data, most + more, 3)
    for a, b in zip(few.samples, many.samples, strict=True):
        assert {*a.variations} <= {*b.variations}


@pytest.mark.slow
def test_a_task_asks_its_agreement_of_few_in_turn() -> None:
    every, some = (
        Task.from_config(texts="natural", names={"agreement": count, "test": 24})
        for count in (None, 8)
    )
    assert every.agreement["test"].widest == 24
    assert some.agreement["test"].widest == 8
    assert some.agreement["test"].templates == every.agreement["test"].templates
    names = {v.name for s in some.agreement["test"].samples for v in s.variations if v.name}
    assert len(names) == 48
    with pytest.raises(UserError, match=r"names\.agreement=0"):
        Task.from_config(names={"agreement": 0})
