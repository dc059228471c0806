"""Likelihoods of replies are those of a plain decoder, whatever stands beside them in a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import RandomDirections
from countergen_edit.models import LanguageModel, load, text_log_probs
from tests.tiny_models import tiny_model_dir

ASKED = [
    ("Jane met the cook. Who left?", "the cook"),
    ("Jane met the cook. Who left?", "Jane"),
    ("Who ran the shop, and who was late on the day that it rained?", "not known"),
    ("Who?", "the cook of the shop"),
    ("Jane met the cook. Who left?", "x"),
]
PROMPTS, REPLIES = ([pair[side] for pair in ASKED] for side in (0, 1))
Score = Callable[[str, str], tuple[float, int]]


@pytest.fixture(scope="module", params=["t5", "bart"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> LanguageModel:
    return load(tiny_model_dir(request.param, tmp_path_factory.mktemp(request.param)))


@pytest.fixture(scope="module")
def plain(model: LanguageModel) -> Score:
    """`transformers` alone, one reply at a time: what is shifted right are the labels."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    own: Any = AutoModelForSeq2SeqLM.from_pretrained(model.name).eval()
    tokenizer = AutoTokenizer.from_pretrained(model.name)

    def score(prompt: str, reply: str) -> tuple[float, int]:
        labels = tokenizer(reply, return_tensors="pt", return_special_tokens_mask=True)
        with torch.no_grad():
            output = own(**_of(tokenizer(prompt, return_tensors="pt")), labels=labels.input_ids)
        log_p = output.logits[0].double().log_softmax(-1)
        shown = (labels.special_tokens_mask[0] == 0).nonzero()[:, 0].tolist()
        return sum(log_p[k, labels.input_ids[0, k]].item() for k in shown), len(shown)

    return score


def _of(table: Any) -> dict[str, Any]:
    return {key: table[key] for key in ("input_ids", "attention_mask")}


@pytest.mark.parametrize("tokens", [1, 40, 4096])
def test_replies_are_as_likely_as_a_plain_decoder_says(
    model: LanguageModel, plain: Score, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("countergen_edit.models.batching.CPU_TOKENS", tokens)
    scores = text_log_probs(model, PROMPTS, REPLIES, chat=True)
    for (prompt, reply), log_p, length in zip(ASKED, scores.log_p, scores.tokens, strict=True):
        expected, count = plain(prompt, reply)
        assert length == count
        assert log_p == pytest.approx(expected, abs=1e-5)
    assert scores.log_p.dtype == np.float64


def test_order_changes_nothing(model: LanguageModel) -> None:
    forth = text_log_probs(model, PROMPTS, REPLIES, chat=True)
    back = text_log_probs(model, PROMPTS[::-1], REPLIES[::-1], chat=True)
    assert np.array_equal(forth.log_p, back.log_p[::-1])
    assert np.array_equal(forth.tokens, back.tokens[::-1])
    assert not len(text_log_probs(model, [], [], chat=True).log_p)


def test_an_edit_of_the_decoder_is_in_them(model: LanguageModel) -> None:
    rng = np.random.default_rng(0)
    erasure = RandomDirections(rank=8).fit(rng.normal(size=(40, 32)), np.arange(40) % 2).erasure_
    before = text_log_probs(model, PROMPTS, REPLIES, chat=True).log_p
    with applied(model, Edit.at("resid_post", {0: erasure})):
        assert not np.allclose(text_log_probs(model, PROMPTS, REPLIES, chat=True).log_p, before)
    assert np.array_equal(text_log_probs(model, PROMPTS, REPLIES, chat=True).log_p, before)


def test_what_cannot_be_scored_is_refused(model: LanguageModel) -> None:
    with pytest.raises(UserError, match="empty reply '' to 'Who\\?'"):
        text_log_probs(model, ["Who?"], [""], chat=True)
    with pytest.raises(UserError, match="2 prompts but 1 continuations"):
        text_log_probs(model, ["Who?", "Why?"], ["I"], chat=True)
    with pytest.raises(UserError, match="scores replies, but scores and activations of a text"):
        text_log_probs(model, ["Who?"], ["I"])
