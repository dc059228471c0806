"""Encodings are those of the tokenizer, and texts are checked without tokenising them all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.models import LanguageModel, check_texts, encode, load_model
from countergen_edit.testbed import directory

TEXTS = ["Jane is a nurse", "", " ", "naïve café: “good”", "日本 語", "a\n\nb ", "<s> x"]
LONG = st.lists(st.text(max_size=90), max_size=6)


def refusal(call: object) -> str:
    try:
        call()  # type: ignore[operator]
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("padded", [False, True])
def test_encodings_are_those_of_the_tokenizer(lm: LanguageModel, padded: bool) -> None:
    if padded:  # as some checkpoints have it
        lm.tokenizer.backend_tokenizer.enable_padding(length=50)
        lm.tokenizer.backend_tokenizer.enable_truncation(2)
    found = encode(lm, TEXTS)
    table = lm.tokenizer(TEXTS, return_offsets_mapping=True)
    assert [own.ids for own in found] == table["input_ids"]
    assert [own.offsets for own in found] == [[*map(tuple, own)] for own in table["offset_mapping"]]


@given(texts=LONG)
def test_texts_are_refused_as_if_all_were_tokenised(lm: LanguageModel, texts: list[str]) -> None:
    assert refusal(lambda: check_texts(lm, texts)) == refusal(lambda: encode(lm, texts))


def test_a_tokenizer_of_another_model_is_refused(lm: LanguageModel) -> None:
    other = LanguageModel("other", lm.bridge, load_model(directory()).tokenizer)
    rare = [f" {word}" for word in other.tokenizer.get_vocab()]
    with pytest.raises(UserError, match=r"gives token .*: give the tokenizer that belongs to"):
        check_texts(other, rare)
