import numpy as np
import pytest
import torch
from scipy import stats

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, applied
from countergen_edit.erasers import RandomDirections
from countergen_edit.models import capture, generate, hook_name, load_model, split_names
from countergen_edit.models.generation import RowSampler, gumbel
from tests.tiny_models import ENCODER_DECODERS, tiny_model_dir

PROMPTS = ["Jane is a", "The naïve café owner said: “good", "J"]
PROMPTS.append("John is an engineer, working as a")


def definition(plain, prompt, n):
    """Greedy decoding without cache, one prompt at a time."""
    model, tokenizer = plain
    ids, new = torch.tensor([tokenizer(prompt)["input_ids"]]), list[int]()
    start = model.config.decoder_start_token_id if model.config.is_encoder_decoder else None
    while len(new) < n and (not new or new[-1] != tokenizer.eos_token_id):
        with torch.no_grad():
            if start is None:
                logits = model(torch.cat([ids, torch.tensor([new], dtype=torch.long)], 1)).logits
            else:
                logits = model(ids, decoder_input_ids=torch.tensor([[start, *new]])).logits
        new.append(int(logits[0, -1].argmax()))
    return tokenizer.decode(new, skip_special_tokens=True)


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_greedy_text_is_that_of_the_definition_whatever_the_batches(lm, plain, batch_size):
    texts = generate(lm, PROMPTS, max_new_tokens=12, batch_size=batch_size)
    assert texts == [definition(plain, prompt, 12) for prompt in PROMPTS]


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


def test_the_cache_is_used_and_an_edit_stays_on_under_it(lm):
    lengths = []

    def shift(x, hook):
        lengths.append(x.shape[1])
        return x + torch.arange(x.shape[-1])

    before = generate(lm, PROMPTS[:1], max_new_tokens=6)
    with lm.bridge.hooks(fwd_hooks=[(hook_name(lm, "resid_post", 0), shift)]):
        assert generate(lm, PROMPTS[:1], max_new_tokens=6) != before
    assert lengths[0] > 1
    assert set(lengths[1:]) == {1}


def test_the_checkpoints_own_settings_are_not_used(gpt2, monkeypatch):
    config = gpt2.bridge.original_model.generation_config
    before = generate(gpt2, PROMPTS, max_new_tokens=10)
    monkeypatch.setattr(config, "repetition_penalty", 50.0)
    # GPT-2's default, in a model of a few hundred tokens.
    monkeypatch.setattr(config, "eos_token_id", 50256)
    assert generate(gpt2, PROMPTS, max_new_tokens=10) == before
    assert gpt2.bridge.original_model.generation_config is config


def test_a_sample_depends_on_neither_the_batches_nor_the_order(lm):
    def sample(prompts, **options):
        return generate(lm, prompts, max_new_tokens=6, do_sample=True, top_p=0.9, **options)

    prompts = PROMPTS * 3
    texts = sample(prompts)
    assert sample(prompts, batch_size=5) == texts
    for k, prompt in enumerate(PROMPTS):  # its k-th sample, whatever stands around it
        assert sample([prompt] * 3, batch_size=1) == texts[k :: len(PROMPTS)]
    turned = sample([p for p in PROMPTS[::-1] for _ in range(3)])
    again = {p: turned[3 * k : 3 * k + 3] for k, p in enumerate(PROMPTS[::-1])}
    assert [again[p][k] for k in range(3) for p in PROMPTS] == texts
    assert len(set(texts)) > len(PROMPTS)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    assert sample(prompts, seed=1) != texts
    assert torch.equal(torch.get_rng_state(), state)  # the caller's


@pytest.fixture(scope="module", params=ENCODER_DECODERS)
def encoder_decoder(request, tmp_path_factory):
    return load_model(tiny_model_dir(request.param, tmp_path_factory.mktemp(request.param)))


@pytest.mark.parametrize("batch_size", [1, 64])
def test_a_decoder_writes_what_the_definition_says(encoder_decoder, batch_size):
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained(encoder_decoder.name).eval()
    texts = generate(encoder_decoder, PROMPTS, max_new_tokens=8, batch_size=batch_size)
    plain = model, encoder_decoder.tokenizer
    assert texts == [definition(plain, prompt, 8) for prompt in PROMPTS]


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


def nucleus(logits, top_p):
    """Probabilities of the smallest set of likeliest tokens that holds `top_p`."""
    p = np.exp(logits - logits.max())
    p /= p.sum()
    tokens, mass = [], 0.0
    for token in np.argsort(-p):
        if mass >= top_p:
            break
        tokens.append(token)
        mass += p[token]
    out = np.zeros_like(p)
    out[tokens] = p[tokens] / p[tokens].sum()
    return out


def draw(logits, seeds, **options):
    sampler = RowSampler(seeds, **({"top_p": 1.0, "temperature": 1.0} | options))
    scores = sampler(torch.zeros(len(seeds), 1, dtype=torch.long), logits)
    assert (torch.isfinite(scores).sum(-1) == 1).all()
    return scores.argmax(-1).numpy()


@pytest.mark.parametrize("top_p", [0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_frequencies_are_those_of_the_nucleus(top_p, temperature):
    logits = np.random.default_rng(3).normal(size=12) * 2
    expected = nucleus(logits / temperature, top_p)
    n = 20_000
    rows, seeds = torch.tensor(logits).expand(n, -1), list(range(n))
    drawn = draw(rows, seeds, top_p=top_p, temperature=temperature)
    counts = np.bincount(drawn, minlength=12)
    assert not counts[expected == 0].any()
    inside = expected > 0
    if inside.sum() > 1:
        assert stats.chisquare(counts[inside], n * expected[inside]).pvalue > 1e-3


def test_rows_of_a_large_vocabulary_are_sampled_as_each_alone():
    logits, seeds = torch.randn(5, 2**19, generator=torch.Generator().manual_seed(0)), [*range(5)]
    alone = [draw(logits[[i]], [i], top_p=0.9).item() for i in seeds]
    assert draw(logits, seeds, top_p=0.9).tolist() == alone


def test_noise_is_gumbel_and_independent_across_rows_steps_and_tokens():
    seeds = torch.tensor([1, 2, 2**62 - 1])
    noise = np.stack([gumbel(seeds, step, 20_000).numpy() for step in range(3)])
    assert stats.kstest(noise.ravel(), "gumbel_r").pvalue > 1e-3
    correlations = np.corrcoef(noise.reshape(9, -1))
    assert np.abs(correlations - np.eye(9)).max() < 5 / np.sqrt(20_000)
    assert np.abs(np.corrcoef(noise[0, 0, :-1], noise[0, 0, 1:])[0, 1]) < 5 / np.sqrt(20_000)


def test_a_name_is_counted_as_it_stands_in_a_sentence(testbed):
    counts = split_names(testbed, ["Jane", "John", "Zyxwvut"])
    assert (counts["Jane"], counts["John"]) == (1, 1)
    assert counts["Zyxwvut"] > 1
    for name, count in counts.items():
        spelled = testbed.tokenizer(f"to {name}").input_ids
        assert len(spelled) == count + len(testbed.tokenizer("to").input_ids)
