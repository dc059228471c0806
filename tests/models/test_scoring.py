import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.models import (
    continuation_log_probs,
    encode,
    opens_texts,
    resuming,
    text_log_probs,
)
from countergen_edit.models.scoring import batches, divergence, log_likelihood

# 1e-5: float32 sums over rows padded differently differ by a few units in the last place.
TOLERANCE = 1e-5
TOKENS = "countergen_edit.models.batching.CPU_TOKENS"
PROMPTS = [
    "Jane is",
    "Jane is",
    "John is an engineer, working as a",
    "The naïve café own",  # its continuation begins within a word
    "Ahmed was asked why he failed the exam; they told Emily a story. She",
    "Jane is a",
    "She said: “",
]
CONTINUATIONS = [" a", " a nurse and she", " manager", "er said", " works", " nurse", "good”"]


def brute_force(plain, prompt, text):
    """Likelihood of the tokens that show a text and have one before them, and their number."""
    model, tokenizer = plain
    table = tokenizer(prompt + text, return_offsets_mapping=True)
    ids = torch.tensor([table["input_ids"]])
    with torch.no_grad():
        log_p = model(ids).logits[0].double().log_softmax(-1)
    read = [k for k, (_, end) in enumerate(table["offset_mapping"]) if end > len(prompt) and k]
    return sum(log_p[k - 1, ids[0, k]].item() for k in read), len(read)


@pytest.mark.parametrize(
    ("tokens", "has_memory"), [(1, True), (25, True), (16384, True), (16384, False)]
)
def test_scores_equal_the_definition_whatever_the_batches(
    lm, plain, tokens, has_memory, monkeypatch
):
    monkeypatch.setattr(TOKENS, tokens)
    if not has_memory:
        reads = "countergen_edit.models.batching.CPU_LOGIT_BYTES"
        monkeypatch.setattr(reads, lm.vocab_size * 4 * 3)
        monkeypatch.setattr("countergen_edit.models.scoring._CPU_WIDE", lm.vocab_size * 2)
    scores = continuation_log_probs(lm, PROMPTS, CONTINUATIONS)
    expected = [brute_force(plain, *p)[0] for p in zip(PROMPTS, CONTINUATIONS, strict=True)]
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, expected, atol=TOLERANCE)


@pytest.mark.parametrize("characters", [1, 60])
def test_many_texts_are_scored_in_portions_of_which_nothing_is_kept(gpt2, characters, monkeypatch):
    def scored(lm):
        whole = text_log_probs(lm, PROMPTS, CONTINUATIONS)
        return [continuation_log_probs(lm, PROMPTS, CONTINUATIONS), whole.log_p, whole.tokens]

    expected, resumed = scored(gpt2), resuming(gpt2, [0])
    monkeypatch.setattr("countergen_edit.models.scoring.PORTION", characters)
    for lm in (gpt2, resumed):
        for scores, whole in zip(scored(lm), expected, strict=True):
            np.testing.assert_allclose(scores, whole, atol=TOLERANCE)
    assert (resumed.scratch.used, resumed._memo) == (0, {})


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(0, len(PROMPTS) - 1), max_size=12), st.integers(1, 80))
def test_order_and_duplicates_do_not_matter(llama, picks, tokens):
    alone = continuation_log_probs(llama, PROMPTS, CONTINUATIONS)
    texts = [PROMPTS[i] for i in picks], [CONTINUATIONS[i] for i in picks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TOKENS, tokens)
        picked = continuation_log_probs(llama, *texts)
    np.testing.assert_allclose(picked, alone[picks], atol=TOLERANCE)


def test_hooks_on_the_bridge_change_the_scores(lm):
    before = continuation_log_probs(lm, PROMPTS, CONTINUATIONS)
    flatten = ("unembed.hook_out", lambda logits, hook: torch.zeros_like(logits))
    with lm.bridge.hooks(fwd_hooks=[flatten]):
        uniform = continuation_log_probs(lm, ["Jane", "Jane is"], [" is a nurse", " a"])
    tokens = len(encode(lm, ["Jane is a nurse"])[0].after(len("Jane")))
    np.testing.assert_allclose(uniform, -np.log(lm.vocab_size) * np.array([tokens, 1]))
    np.testing.assert_array_equal(continuation_log_probs(lm, PROMPTS, CONTINUATIONS), before)


@pytest.mark.parametrize(
    ("prompts", "continuations", "message"),
    [
        (["Jane is"], [""], "empty continuation '' after 'Jane is'"),
        (["Jane is"], [], "1 prompts, 0 continuations"),
        ([""], [" a"], "no beginning-of-text token"),
        (["Jane is" * 40], [" a"], r"a text of \d+ tokens exceeds the context .* \(64\)"),
    ],
)
def test_bad_input_is_named(gpt2, prompts, continuations, message):
    with pytest.raises(UserError, match=message):
        continuation_log_probs(gpt2, prompts, continuations)


def test_whole_texts_score_by_the_definition_and_their_tokens_are_counted(lm, plain, monkeypatch):
    prompts = ["", "", "Jane is", ""]
    texts = ["Jane is a nurse", "John is", " a nurse", "Jane is a"]
    monkeypatch.setattr(TOKENS, 40)
    scored = text_log_probs(lm, prompts, texts)
    expected = [brute_force(plain, *pair) for pair in zip(prompts, texts, strict=True)]
    np.testing.assert_allclose(scored.log_p, [e[0] for e in expected], atol=TOLERANCE)
    assert scored.tokens.tolist() == [e[1] for e in expected]
    lengths = [len(encoding.ids) for encoding in encode(lm, texts)]
    assert [lengths[k] - scored.tokens[k] for k in (0, 1, 3)] == [1, 1, 1]  # BOS or first token


def test_a_text_of_which_nothing_can_be_scored_is_refused(lm):
    if opens_texts(lm):
        assert text_log_probs(lm, [""], ["a"]).tokens.tolist() == [1]
        return
    with pytest.raises(UserError, match="no token of 'a' has another before it"):
        text_log_probs(lm, [""], ["a"])


TEXTS = ["Jane is a nurse and she works", "Jane is", "John", "Jane is", "The naïve café owner"]


def test_every_real_position_gets_its_distribution_batch_by_batch(lm, plain, monkeypatch):
    model, tokenizer = plain
    with torch.no_grad():
        expected = torch.cat(
            [model(torch.tensor([tokenizer(t)["input_ids"]])).logits[0] for t in TEXTS]
        ).double()
    monkeypatch.setattr("countergen_edit.models.scoring._CPU_WIDE", lm.vocab_size * 2)
    for limit in (1, 10, 16384):
        everything = torch.full_like(expected, torch.nan)
        monkeypatch.setattr(TOKENS, limit)
        for batch in batches(lm, TEXTS):
            before = lm.logits(batch.ids, batch.mask, (batch.row, batch.position))
            log_p = everything[torch.from_numpy(batch.slot)] = before.double().log_softmax(-1)
            to_uniform = np.log(lm.vocab_size) + (log_p.exp() * log_p).sum(-1)
            kl = divergence(before, torch.zeros_like(before))
            torch.testing.assert_close(kl, to_uniform)
            likeliest = log_likelihood(before, before.argmax(-1))
            torch.testing.assert_close(likeliest, log_p.amax(-1))
        torch.testing.assert_close(everything, expected.log_softmax(-1), atol=1e-5, rtol=0)
