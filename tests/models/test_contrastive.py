"""Contrastive decoding against the definition, one pair and one token at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from countergen_edit.core.errors import UserError
from countergen_edit.models import contrastive_generate, load_model, token_texts
from countergen_edit.models.contrastive import contrast, jensen_shannon
from tests.tiny_models import tiny_model_dir, tiny_sentencepiece

PAIRS = [
    ("Jane is a nurse", "John is an engineer, working"),
    ("Emily", "Ahmed was asked"),
    ("The naïve café owner", "The naïve"),
]
STRENGTHS = [0.0, 3.0, 50.0]
TOKENS = 5


@pytest.fixture(scope="module", params=["gpt2", "llama", "t5", "testbed"])
def any_lm(request, tmp_path_factory):
    if request.param == "testbed":
        return request.getfixturevalue("testbed")
    path = tmp_path_factory.mktemp("cid") / request.param
    return load_model(tiny_model_dir(request.param, path), device="cpu")


def next_probabilities(lm, prompt, new):
    """p(· | prompt, new) in float64, without cache, batch or padding."""
    ids = torch.tensor([lm.tokenizer(prompt)["input_ids"]])
    model = lm.bridge.original_model
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            start = model.config.decoder_start_token_id
            logits = model(input_ids=ids, decoder_input_ids=torch.tensor([[start, *new]])).logits
        else:
            logits = model(torch.cat([ids, torch.tensor([new], dtype=torch.long)], dim=1)).logits
    return logits[0, -1].double().softmax(-1).numpy()


def definition(lm, x, other, strength, top_k, count):
    """Equation 1, token by token: the greedy path with its Δ and divergences."""
    new, delta, divergence = [], [], []
    for _ in range(count):
        p, q = (next_probabilities(lm, prompt, new) for prompt in (x, other))
        tilted = np.exp(strength * (p - q)) * p
        tilted[np.argsort(-p)[top_k:]] = 0
        token = int(tilted.argmax())
        new.append(token)
        delta.append(p[token] - q[token])
        divergence.append(jensenshannon(p, q) ** 2)
        if token == lm.tokenizer.eos_token_id:
            break
    return new, delta, divergence


def test_it_is_the_definition_whatever_shares_the_batch(any_lm):
    top_k = 3  # few enough that the restriction decides at a large λ
    requests = [(x, other, s) for x, other in PAIRS for s in STRENGTHS]
    columns = (list(column) for column in zip(*requests, strict=True))
    how = {"max_new_tokens": TOKENS, "top_k": top_k, "batch_size": 5}
    continuations = contrastive_generate(any_lm, *columns, **how)
    for (x, other, s), one in zip(requests, continuations, strict=True):
        tokens, delta, divergence = definition(any_lm, x, other, s, top_k, TOKENS)
        assert list(one.tokens) == tokens
        # Weights are float32: the logits of the two sides carry rounding of about 1e-6.
        np.testing.assert_allclose(one.delta, delta, atol=2e-5)
        np.testing.assert_allclose(one.divergence, divergence, atol=2e-5)


@pytest.fixture(scope="module", params=["llama", "t5"])
def with_sentencepiece(request, tmp_path_factory):
    """A model whose tokens carry the space before them, which decoding them alone drops."""
    path = tmp_path_factory.mktemp("cid") / f"{request.param}-pieces"
    tokenizer = tiny_sentencepiece(ends=request.param == "t5")
    return load_model(tiny_model_dir(request.param, path, tokenizer), device="cpu")


def test_a_prompt_and_its_text_join_as_the_model_has_them(with_sentencepiece):
    lm = with_sentencepiece
    x, other = zip(*PAIRS[:2], strict=True)
    for strength in STRENGTHS:
        texts = contrastive_generate(lm, list(x), list(other), strength, max_new_tokens=TOKENS)
        for prompt, one in zip(x, texts, strict=True):
            pieces = lm.tokenizer.convert_ids_to_tokens(list(one.tokens))
            spelled = "".join(p for p in pieces if p not in lm.tokenizer.all_special_tokens)
            assert one.text == spelled.replace("▁", " ")
            assert "".join(token_texts(lm, prompt, one.tokens)) == one.text
            if spelled.startswith("▁"):
                assert (prompt + one.text).startswith(f"{prompt} ")


def test_a_sentence_ends_where_it_ends(testbed):
    x, other = "Jane works as", "John works as"
    [whole] = contrastive_generate(testbed, [x], [other], 10, max_new_tokens=20)
    [one] = contrastive_generate(testbed, [x], [other], 10, max_new_tokens=20, sentence=True)
    end = next(k for k, c in enumerate(whole.text) if c in ".!?\n")
    assert one.text == whole.text[: end + 1]
    assert "".join(token_texts(testbed, x, whole.tokens)) == whole.text
    assert len(one.delta) == len(one.divergence) == len(one.tokens)


LOGITS = st.lists(st.integers(-300, 300), min_size=6, max_size=6, unique=True).map(
    lambda tenths: [x / 10 for x in tenths]
)


@settings(max_examples=60, deadline=None)
@given(LOGITS, LOGITS, st.floats(0, 100), st.floats(-20, 20))
def test_the_contrast_is_a_distribution_over_the_k_that_no_constant_moves(p, q, strength, shift):
    x, other = (torch.tensor([row], dtype=torch.float64) for row in (p, q))
    lam = torch.tensor([strength], dtype=torch.float64)
    log_p, delta, token = contrast(x, other, lam, 4)
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(1, dtype=torch.float64))
    assert (delta.abs() <= 1).all()
    moved, _, _ = contrast(x + shift, other - shift, lam, 4)
    torch.testing.assert_close(log_p, moved, atol=1e-6, rtol=1e-6)
    assert len(set(token[0].tolist())) == 4
    if strength == 0:
        torch.testing.assert_close(log_p, x.gather(1, token).log_softmax(-1))


@settings(max_examples=60, deadline=None)
@given(LOGITS, LOGITS)
def test_the_divergence_is_scipys(p, q):
    x, other = (torch.tensor([row], dtype=torch.float64) for row in (p, q))
    expected = jensenshannon(x.softmax(-1)[0].numpy(), other.softmax(-1)[0].numpy()) ** 2
    assert float(jensen_shannon(x, other)) == pytest.approx(np.nan_to_num(expected), abs=1e-9)
    assert float(jensen_shannon(x, other)) == pytest.approx(float(jensen_shannon(other, x)))


@pytest.mark.parametrize(
    ("x", "other", "options", "message"),
    [
        (["Jane"], ["John"], {"top_k": 0}, "top_k=0"),
        (["Jane"], ["John"], {"strength": float("nan")}, "lambda=nan"),
        (["Jane"], ["John", "Ahmed"], {}, "1 prompts, 2 contrasts"),
        (["Jane"], ["John is"], {"max_new_tokens": 63}, "2 tokens and 63 new ones .*'John is'"),
        (["Jane"], [""], {}, "empty prompt"),
        (["Jane"], ["John"], {"max_new_tokens": 0}, "max_new_tokens=0"),
        (["Jane"], ["John"], {"batch_size": 0}, "batch_size=0"),
    ],
)
def test_bad_input_is_named(gpt2, x, other, options, message):
    with pytest.raises(UserError, match=message):
        contrastive_generate(gpt2, x, other, **{"strength": 1.0, "max_new_tokens": 4, **options})
