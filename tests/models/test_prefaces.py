"""Words before every text: the same tokens after them are scored, written and captured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from countergen_edit.core.errors import UserError
from countergen_edit.models import (
    LanguageModel,
    after_preface,
    batches,
    capture,
    continuation_log_probs,
    encode,
    generate,
    load,
    preface_ids,
    resuming,
    text_log_probs,
)
from tests.tiny_models import FAMILIES, tiny_model_dir

PROMPTS = ["Jane is a nurse and", "John works at the hospital", "Ahmed was asked why", "Jane is a"]
OUTPUTS = [" she works", " for his company.", " he failed", " nurse"]
WORDS = "they told Emily a story.\n"


@pytest.fixture(scope="module", params=FAMILIES)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> LanguageModel:
    return load(tiny_model_dir(request.param, tmp_path_factory.mktemp(request.param)))


def plain_ids(model: LanguageModel, text: str) -> list[int]:
    ids: list[int] = model.tokenizer(text, add_special_tokens=False).input_ids
    return ids


def by_hand(model: LanguageModel, before: list[int], prompt: str, output: str) -> float:
    """log P of the output's tokens by one plain pass over the concatenated ids, one text alone."""
    prompt_ids, ids = plain_ids(model, prompt), plain_ids(model, prompt + output)
    row = torch.tensor([[*before, *ids]])
    log_p = model.bridge.original_model(row).logits[0].double().log_softmax(-1)
    at = range(len(before) + len(prompt_ids), row.shape[1])
    return float(sum(log_p[k - 1, row[0, k]] for k in at))


def test_scores_after_a_preface_are_those_of_the_concatenated_ids(model: LanguageModel) -> None:
    bos = [model.tokenizer.bos_token_id] if model.adds_bos else []
    before = [*bos, *plain_ids(model, WORDS)]
    asked = model.with_preface(preface_ids(model, WORDS))
    expected = [by_hand(model, before, p, o) for p, o in zip(PROMPTS, OUTPUTS, strict=True)]
    np.testing.assert_allclose(continuation_log_probs(asked, PROMPTS, OUTPUTS), expected, atol=1e-4)
    unasked = continuation_log_probs(model, PROMPTS, OUTPUTS)
    assert np.abs(unasked - expected).min() > 1e-3


def test_whole_texts_are_scored_on_the_same_tokens_with_a_preface_and_without(
    model: LanguageModel,
) -> None:
    asked = model.with_preface(preface_ids(model, WORDS))
    before, after = (text_log_probs(own, [""] * len(PROMPTS), PROMPTS) for own in (model, asked))
    assert before.tokens.tolist() == after.tokens.tolist()
    assert np.abs(before.log_p - after.log_p).min() > 1e-3


def test_the_texts_own_tokens_stay_what_they_are(model: LanguageModel) -> None:
    asked = model.with_preface(preface_ids(model, WORDS))
    own = int(model.adds_bos)
    for with_words, without in zip(encode(asked, PROMPTS), encode(model, PROMPTS), strict=True):
        count = len(without.ids) - own
        assert with_words.ids[-count:] == without.ids[own:]
        assert with_words.offsets[-count:] == without.offsets[own:]
        assert set(with_words.offsets[:-count]) == {(0, 0)}


def test_what_is_written_after_a_preface_is_what_follows_all_of_it(model: LanguageModel) -> None:
    asked = model.with_preface(preface_ids(model, WORDS))
    written = generate(asked, PROMPTS, max_new_tokens=5)
    for prompt, text in zip(PROMPTS, written, strict=True):
        row = [*preface_ids(model, WORDS), *plain_ids(model, prompt)]
        out = model.bridge.original_model.generate(
            torch.tensor([row]), max_new_tokens=5, do_sample=False, pad_token_id=0
        )[0].tolist()
        decode = model.tokenizer.decode
        whole = decode(out, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert whole.endswith(text)
        assert prompt + text in whole
    assert written == [generate(asked, [p], max_new_tokens=5)[0] for p in PROMPTS]


def test_what_is_captured_after_a_preface_is_what_the_text_has_there(model: LanguageModel) -> None:
    asked = model.with_preface(preface_ids(model, WORDS))
    last = capture(asked, PROMPTS, layers=[1]).values["resid_post"][0]
    alone = [capture(asked, [p], layers=[1]).values["resid_post"][0, 0] for p in PROMPTS]
    np.testing.assert_allclose(last, alone, atol=1e-5)
    assert np.abs(last - capture(model, PROMPTS, layers=[1]).values["resid_post"][0]).max() > 1e-3
    every = capture(asked, PROMPTS, layers=[1], starts=[0] * len(PROMPTS), positions="onward")
    own = [len(plain_ids(model, prompt)) for prompt in PROMPTS]
    assert np.bincount(every.row_text).tolist() == own


def test_running_text_is_read_at_the_same_tokens_with_and_without_a_preface(
    model: LanguageModel,
) -> None:
    asked = model.with_preface(preface_ids(model, WORDS))
    for batch in batches(model, PROMPTS):
        after = after_preface(asked, batch, model)
        np.testing.assert_array_equal(after.slot, batch.slot)
        own = batch.position > 0 if model.adds_bos else batch.position >= 0
        ids, of_preface = (b.ids[b.row, b.position][own] for b in (batch, after))
        assert torch.equal(ids, of_preface)
        for row, ids in zip(after.ids, after.mask, strict=True):
            text = row[: int(ids.sum())].tolist()
            assert text in [encoding.ids for encoding in encode(asked, PROMPTS)]


def test_a_model_that_resumes_tells_prefaces_apart(model: LanguageModel) -> None:
    asked = model.with_preface(preface_ids(model, WORDS))
    resumed = resuming(asked, [0])
    sharing = replace(resumed, preface=())  # what it remembers is one memory with the other's
    for own, plain in ((resumed, asked), (sharing, model), (resumed, asked)):
        expected = continuation_log_probs(plain, PROMPTS, OUTPUTS)
        scores = continuation_log_probs(own, PROMPTS, OUTPUTS)
        np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_an_empty_prompt_can_follow_words(tmp_path: Path) -> None:
    model = load(tiny_model_dir("gpt2", tmp_path))
    with pytest.raises(UserError, match="nothing precedes"):
        continuation_log_probs(model, [""], ["Jane"])
    asked = model.with_preface(preface_ids(model, WORDS))
    assert continuation_log_probs(asked, [""], ["Jane"])[0] < 0


def test_words_that_leave_no_room_are_refused(tmp_path: Path) -> None:
    model = load(tiny_model_dir("gpt2", tmp_path))
    asked = model.with_preface(preface_ids(model, WORDS * 9))
    with pytest.raises(UserError, match="exceeds the context"):
        encode(asked, PROMPTS)
