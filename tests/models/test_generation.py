from __future__ import annotations

import numpy as np
import pytest
import torch

from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import RandomDirections
from countergen_edit.errors import UserError
from countergen_edit.models import capture, encode, generate, hook_name, load
from tests.tiny_models import ENCODER_DECODERS, tiny_model_dir

PROMPTS = [
    "Jane is a",
    "The naïve café owner said: “good",
    "J",
    "John is an engineer, working as a",
]


def greedy(plain, prompt: str, n: int) -> list[int]:
    """Greedy decoding without cache, one prompt at a time."""
    model, tokenizer = plain
    ids = tokenizer(prompt)["input_ids"]
    new: list[int] = []
    for _ in range(n):
        with torch.no_grad():
            new.append(int(model(torch.tensor([ids + new])).logits[0, -1].argmax()))
        if new[-1] == tokenizer.eos_token_id:
            break
    return new


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_greedy_text_is_that_of_the_definition_whatever_the_batches(lm, plain, batch_size):
    texts = generate(lm, PROMPTS, max_new_tokens=12, batch_size=batch_size)
    tokenizer = plain[1]
    for prompt, text in zip(PROMPTS, texts, strict=True):
        ids = tokenizer(prompt)["input_ids"] + greedy(plain, prompt, 12)
        assert tokenizer.decode(ids, skip_special_tokens=True) == prompt + text


def test_a_text_ends_at_the_end_token(gpt2):
    end = gpt2.tokenizer.eos_token_id
    step = []

    def end_second_row_at_its_third_token(logits, hook):
        step.append(None)
        if len(step) == 3:
            logits = logits.clone()
            logits[1, -1, end] = 1e4
        return logits

    plain = generate(gpt2, ["Jane is", "John is a"], max_new_tokens=8)
    with gpt2.bridge.hooks(fwd_hooks=[("unembed.hook_out", end_second_row_at_its_third_token)]):
        ended = generate(gpt2, ["Jane is", "John is a"], max_new_tokens=8)
    assert ended[0] == plain[0]
    assert plain[1].startswith(ended[1])
    assert len(ended[1]) < len(plain[1])


def test_an_end_token_beyond_the_vocabulary_is_passed_over(gpt2):
    own = gpt2.bridge.original_model.generation_config
    end, before = own.eos_token_id, generate(gpt2, PROMPTS, max_new_tokens=10)
    own.eos_token_id = 50256  # GPT-2's default, in a model of a few hundred tokens
    try:
        assert generate(gpt2, PROMPTS, max_new_tokens=10) == before
    finally:
        own.eos_token_id = end


def test_hooks_are_active_at_every_step(lm):
    token = encode(lm, ["x"])[0].ids[-1]

    def only_x(logits, hook):
        certain = torch.zeros_like(logits)
        certain[..., token] = 1
        return certain

    with lm.bridge.hooks(fwd_hooks=[("unembed.hook_out", only_x)]):
        assert generate(lm, PROMPTS, max_new_tokens=5) == ["xxxxx"] * len(PROMPTS)
    assert generate(lm, PROMPTS, max_new_tokens=5) != ["xxxxx"] * len(PROMPTS)


def test_the_cache_is_used_and_an_edit_stays_on_under_it(lm):
    lengths = []

    def shift(x, hook):
        lengths.append(x.shape[1])
        return x + torch.arange(x.shape[-1])

    before = generate(lm, PROMPTS, max_new_tokens=6)
    with lm.bridge.hooks(fwd_hooks=[(hook_name(lm, "resid_post", 0), shift)]):
        edited = generate(lm, PROMPTS[:1], max_new_tokens=6)
    assert lengths[0] > 1
    assert set(lengths[1:]) == {1}
    assert edited[0] != before[0]


def test_samples_follow_the_seed_and_leave_the_callers_random_state(gpt2):
    def sample(seed):
        return generate(gpt2, PROMPTS, max_new_tokens=12, do_sample=True, top_p=0.9, seed=seed)

    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = sample(1)
    assert torch.equal(torch.get_rng_state(), state)
    assert sample(1) == first
    assert sample(2) != first


def test_the_checkpoints_own_sampling_settings_are_not_used(gpt2):
    own = gpt2.bridge.original_model.generation_config
    before = generate(gpt2, PROMPTS, max_new_tokens=10)
    own.repetition_penalty = 50.0
    try:
        assert generate(gpt2, PROMPTS, max_new_tokens=10) == before
    finally:
        own.repetition_penalty = None
    assert gpt2.bridge.original_model.generation_config is own


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_a_sample_depends_on_neither_the_batches_nor_the_order(lm, batch_size):
    def sample(prompts, **options):
        return generate(lm, prompts, max_new_tokens=10, do_sample=True, top_p=0.9, **options)

    prompts = PROMPTS * 3
    texts = sample(prompts)
    assert sample(prompts, batch_size=batch_size) == texts
    for k, prompt in enumerate(PROMPTS):  # its k-th sample, whatever stands around it
        assert sample([prompt] * 3, batch_size=batch_size) == texts[k :: len(PROMPTS)]
    turned = [p for p in PROMPTS[::-1] for _ in range(3)]
    again = dict(zip(PROMPTS[::-1], zip(*[iter(sample(turned))] * 3, strict=True), strict=True))
    assert [again[p][k] for k in range(3) for p in PROMPTS] == texts
    assert len(set(texts)) > len(PROMPTS)


@pytest.fixture(scope="module", params=ENCODER_DECODERS)
def encoder_decoder(request, tmp_path_factory):
    return load(tiny_model_dir(request.param, tmp_path_factory.mktemp(request.param)))


@pytest.mark.parametrize("batch_size", [1, 64])
def test_a_decoder_writes_what_the_definition_says(encoder_decoder, batch_size):
    from transformers import AutoModelForSeq2SeqLM

    plain = AutoModelForSeq2SeqLM.from_pretrained(encoder_decoder.name).eval()
    tokenizer = encoder_decoder.tokenizer
    for prompt, text in zip(
        PROMPTS,
        generate(encoder_decoder, PROMPTS, max_new_tokens=8, batch_size=batch_size),
        strict=True,
    ):
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        written = [plain.config.decoder_start_token_id]
        while len(written) < 9:
            with torch.no_grad():
                logits = plain(input_ids=ids, decoder_input_ids=torch.tensor([written])).logits
            written.append(int(logits[0, -1].argmax()))
            if written[-1] == tokenizer.eos_token_id:
                break
        assert text == tokenizer.decode(written[1:], skip_special_tokens=True)


@pytest.mark.parametrize("site", ["resid_post", "attn_out", "mlp_out"])
def test_an_edit_acts_in_a_decoder(encoder_decoder, site):
    rng = np.random.default_rng(0)
    erasure = RandomDirections(rank=8).fit(rng.normal(size=(40, 32)), np.arange(40) % 2).erasure_
    before = generate(encoder_decoder, PROMPTS, max_new_tokens=8)
    with applied(encoder_decoder, Edit.at(site, {0: erasure, 1: erasure})):
        assert generate(encoder_decoder, PROMPTS, max_new_tokens=8) != before
    assert generate(encoder_decoder, PROMPTS, max_new_tokens=8) == before


def test_what_takes_a_causal_model_says_so(encoder_decoder):
    with pytest.raises(UserError, match="is an encoder-decoder model"):
        capture(encoder_decoder, ["Jane"], sites=("resid_post",))
    with pytest.raises(UserError, match="has no site embed"):
        hook_name(encoder_decoder, "embed")


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([""], {}, "empty prompt"),
        (["Jane is"], {"max_new_tokens": 63}, r"2 tokens and 63 new ones exceed .* \(64\): 'Jane"),
        (["Jane is"], {"max_new_tokens": 0}, "max_new_tokens=0"),
        (["Jane is"], {"do_sample": True, "temperature": 0.0}, "temperature=0.0 must be positive"),
        (["Jane is"], {"do_sample": True, "top_p": 0.0}, r"top_p=0.0 in \(0, 1\]"),
    ],
)
def test_bad_input_is_named(gpt2, prompts, options, message):
    with pytest.raises(UserError, match=message):
        generate(gpt2, prompts, **{"max_new_tokens": 4, **options})


def test_no_prompts_give_no_text(gpt2):
    assert generate(gpt2, [], max_new_tokens=3) == []
