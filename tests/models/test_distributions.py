from __future__ import annotations

import numpy as np
import torch

from countergen_edit.models import batches, continuation_log_probs, encode, log_probs

TEXTS = ["Jane is a nurse and she works", "Jane is", "John", "Jane is", "The naïve café owner"]


def test_every_real_position_gets_its_distribution(lm, plain):
    model, tokenizer = plain
    with torch.no_grad():
        expected = torch.cat(
            [model(torch.tensor([tokenizer(t)["input_ids"]])).logits[0] for t in TEXTS]
        ).double()
    for limit in (1, 16384):
        everything = torch.full_like(expected, torch.nan)
        for batch in batches(lm, TEXTS, max_batch_tokens=limit):
            values = log_probs(lm, batch)
            assert values.dtype is torch.float64
            everything[torch.from_numpy(batch.slot)] = values
        torch.testing.assert_close(everything, expected.log_softmax(-1), atol=1e-5, rtol=0)


def test_they_agree_with_the_scores_of_continuations(gpt2):
    text, prompt = TEXTS[0], "Jane is"
    ids = encode(gpt2, [text])[0].ids
    (batch,) = batches(gpt2, [text])
    values = log_probs(gpt2, batch)[range(len(ids) - 1), ids[1:]]
    expected = values[len(encode(gpt2, [prompt])[0].ids) - 1 :].sum()
    scores = continuation_log_probs(gpt2, [prompt], [text.removeprefix(prompt)])
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_the_kl_to_an_edited_model_is_computed_batch_by_batch(gpt2):
    def flatten(logits, hook):
        return torch.zeros_like(logits)

    for batch in batches(gpt2, TEXTS, max_batch_tokens=10):
        before = log_probs(gpt2, batch)
        assert torch.equal(log_probs(gpt2, batch), before)
        with gpt2.bridge.hooks(fwd_hooks=[("unembed.hook_out", flatten)]):
            after = log_probs(gpt2, batch)
        kl = (before.exp() * (before - after)).sum(-1)
        entropy = -(before.exp() * before).sum(-1)
        torch.testing.assert_close(kl, np.log(gpt2.vocab_size) - entropy)
