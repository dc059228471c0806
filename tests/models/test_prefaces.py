"""Tokens are those of the tokenizer, and the same follow words before every text, as a template."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, applied
from countergen_edit.metrics.costs.neutral import neutral_cost
from countergen_edit.models import (
    LanguageModel,
    capture,
    check_texts,
    continuation_log_probs,
    contrastive_generate,
    encode,
    generate,
    in_template,
    load_model,
    preface_ids,
    resuming,
    text_log_probs,
)
from countergen_edit.models.language_model import INSTRUCTION
from countergen_edit.models.scoring import after_preface, batches
from countergen_edit.models.tokens import before_reply
from countergen_edit.testbed import directory
from tests.tiny_models import tiny_model_dir

TEMPLATE = (
    "{% if bos_token == '<s>' %}{{ bos_token }}{% endif %}{% for m in messages %}"
    "<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
PROMPTS = ["Jane is a nurse and", "John works at the hospital", "Ahmed was asked why", "Jane is a"]
OUTPUTS = [" she works", " for his company.", " he failed", " nurse"]
WORDS = "they told Emily a story.\n"
NEUTRAL = ["they told a story.", "The lab is at the lake."]


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def folder(request, tmp_path_factory):
    """A tiny model with a chat template, whose texts begin with BOS in one family of two."""
    folder = Path(tiny_model_dir(request.param, tmp_path_factory.mktemp(request.param)))
    tokenizer = load_model(folder).tokenizer
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return load_model(folder, template="chat", instruction="Write.")


def plain_ids(model, text):
    return model.tokenizer(text, add_special_tokens=False).input_ids


def conversation(model, message):
    """The tokens before a reply, made by hand."""
    bos = "<s>" if model.tokenizer.bos_token == "<s>" else ""
    return plain_ids(model, f"{bos}<user>{message}\n<assistant>")


def by_hand(model, before, prompt, output):
    """log P of the output's tokens by one plain pass over the concatenated ids, one text alone."""
    start = len(before) + len(plain_ids(model, prompt))
    ids = before + plain_ids(model, prompt + output)
    logits = model.bridge.original_model(torch.tensor([ids])).logits[0].double()
    log_p = logits.log_softmax(-1)[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    return float(log_p[start - 1 :].sum())


def test_it_is_decided_when_a_model_is_loaded(folder, model):
    for template in ("auto", "chat"):
        loaded = load_model(folder, template=template)
        assert list(loaded.preface) == conversation(loaded, INSTRUCTION)
        assert loaded.conversation == {**model.conversation, "instruction": INSTRUCTION}
    plain = load_model(folder)
    assert (plain.preface, plain.conversation, plain.chat.is_on) == ((), None, False)
    assert list(model.preface) == conversation(model, "Write.")
    without = in_template(model, "none")
    assert (without.preface, without.conversation) == ((), None)
    assert model.fingerprint == plain.fingerprint


def test_a_model_without_a_template_is_refused_or_left_as_it_is(tmp_path):
    folder = tiny_model_dir("gpt2", tmp_path / "gpt2")
    assert load_model(folder, template="auto").preface == ()
    with pytest.raises(UserError, match="has no chat template"):
        before_reply(load_model(folder), "Hello.")
    decoder = load_model(tiny_model_dir("t5", tmp_path / "t5"))
    decoder.tokenizer.chat_template = TEMPLATE
    assert in_template(decoder, "auto").preface == ()
    with pytest.raises(UserError, match="is an encoder-decoder model, whose texts stand in no"):
        in_template(decoder, "chat")


def test_texts_are_scored_as_the_beginning_of_a_reply(model):
    before = conversation(model, "Write.")
    expected = [by_hand(model, before, p, o) for p, o in zip(PROMPTS, OUTPUTS, strict=True)]
    np.testing.assert_allclose(continuation_log_probs(model, PROMPTS, OUTPUTS), expected, atol=1e-4)
    # The first token of a text counts, as it is the reply's.
    scores = text_log_probs(model, [""] * len(PROMPTS), PROMPTS)
    expected = [by_hand(model, before, "", prompt) for prompt in PROMPTS]
    np.testing.assert_allclose(scores.log_p, expected, atol=1e-4)
    assert scores.tokens.tolist() == [len(plain_ids(model, prompt)) for prompt in PROMPTS]


def test_a_reply_stands_after_its_own_question(model):
    pairs = [("Is she late?", "Yes"), ("Is she late?", "No"), ("Who left?", "Jane did")]
    questions, replies = zip(*pairs, strict=True)
    expected = [by_hand(model, conversation(model, q), "", reply) for q, reply in pairs]
    for lm in (model, resuming(model, [0])):
        scores = text_log_probs(lm, questions, replies, chat=True)
        np.testing.assert_allclose(scores.log_p, expected, atol=1e-4)
    # What a user says of a model's own stands before the question, in place of the instruction.
    with applied(model, Edit((), "anything", "Be fair.")) as fair:
        [value] = text_log_probs(fair, questions[:1], replies[:1], chat=True).log_p
    before = conversation(model, "Be fair. Is she late?")
    assert value == pytest.approx(by_hand(model, before, "", "Yes"), abs=1e-4)


def test_what_is_written_and_captured_follows_the_template(model):
    plain = in_template(model, "none")
    bos = "<s>" if model.adds_bos else ""
    words, *requests = (before_reply(model, m).removeprefix(bos) for m in ("Write.", *PROMPTS))
    texts = [f"{words}{prompt}" for prompt in PROMPTS]
    assert generate(model, PROMPTS, max_new_tokens=4) == generate(plain, texts, max_new_tokens=4)
    asked = generate(model, PROMPTS, chat=True, max_new_tokens=4)
    assert asked == generate(plain, requests, max_new_tokens=4)
    [inside], [written_out] = (
        contrastive_generate(lm, [x[0]], [x[1]], 3.0, max_new_tokens=4, top_k=5)
        for lm, x in ((model, PROMPTS), (plain, texts))
    )
    assert inside.tokens == written_out.tokens
    np.testing.assert_allclose(inside.divergence, written_out.divergence, atol=1e-6)
    values = capture(model, PROMPTS[:1], layers=[1]).values["resid_post"][0, 0]
    row = torch.tensor([[*conversation(model, "Write."), *plain_ids(model, PROMPTS[0])]])
    _, cache = model.bridge.run_with_cache(row, names_filter="blocks.1.hook_out")
    np.testing.assert_allclose(values, cache["blocks.1.hook_out"][0, -1], atol=1e-4)


def test_running_text_is_read_at_its_own_tokens_alone(model):
    before, request = (conversation(model, words) for words in ("Write.", "Be fair. Write."))
    asking = Edit((), before_reply(model, "Be fair. Write."), "Be fair.")
    nll = [[-by_hand(model, ids, "", text) for text in NEUTRAL] for ids in (before, request)]
    for lm in (model, resuming(model, [0])):
        cost = neutral_cost(lm, asking, NEUTRAL)
        np.testing.assert_allclose(cost.nll_unedited, nll[0], rtol=1e-5)
        np.testing.assert_allclose(cost.nll_edited, nll[1], rtol=1e-5)
        assert cost.tokens.tolist() == [len(plain_ids(model, text)) for text in NEUTRAL]
    unedited = neutral_cost(model, Edit(()), NEUTRAL)
    np.testing.assert_allclose(unedited.kl, 0, atol=1e-9)
    asked = model.with_preface(preface_ids(model, asking.preface))
    for batch in batches(model, NEUTRAL):
        for one, tokens in ((batch, before), (after_preface(asked, batch, model), request)):
            assert one.position.min() == len(tokens) - 1


def test_models_that_remember_tell_conversations_apart(model):
    """One memory serves a model within its template, in another, and without one."""
    resumed = resuming(model, [0])
    other = in_template(model, "chat", "Say something.")
    for lm in (model, other, in_template(model, "none"), model):
        remembering = replace(resumed, chat=lm.chat, preface=lm.preface)
        for asked in (False, True):
            scores, expected = (
                text_log_probs(m, PROMPTS, OUTPUTS, chat=asked).log_p for m in (remembering, lm)
            )
            np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_a_template_that_writes_todays_date_writes_the_same_tomorrow(model, monkeypatch):
    plain = model.conversation
    dated = "{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
    monkeypatch.setattr(model.tokenizer, "chat_template", dated)
    assert before_reply(model, "!") == "26 Jul 2024!"
    assert plain != model.conversation
    refusing = "{{ raise_exception('only\ntools') }}"
    monkeypatch.setattr(model.tokenizer, "chat_template", refusing)
    with pytest.raises(UserError, match="takes no user's message: only tools"):
        before_reply(model, "hello")


# Words of any kind


@pytest.fixture(scope="module")
def prefaced(lm):
    return lm.with_preface(preface_ids(lm, WORDS))


def test_scores_after_a_preface_are_those_of_the_concatenated_ids(lm, prefaced):
    bos = [lm.tokenizer.bos_token_id] if lm.adds_bos else []
    before = [*bos, *plain_ids(lm, WORDS)]
    expected = [by_hand(lm, before, p, o) for p, o in zip(PROMPTS, OUTPUTS, strict=True)]
    after, without = (continuation_log_probs(model, PROMPTS, OUTPUTS) for model in (prefaced, lm))
    np.testing.assert_allclose(after, expected, atol=1e-4)
    assert np.abs(without - expected).min() > 1e-3
    whole, alone = (text_log_probs(model, [""] * len(PROMPTS), PROMPTS) for model in (prefaced, lm))
    assert whole.tokens.tolist() == alone.tokens.tolist()
    for after, plain in zip(encode(prefaced, PROMPTS), encode(lm, PROMPTS), strict=True):
        count = len(plain.ids) - len(bos)
        assert after.ids[-count:] == plain.ids[len(bos) :]
        assert after.offsets[-count:] == plain.offsets[len(bos) :]
        assert set(after.offsets[:-count]) == {(0, 0)}


def test_an_empty_prompt_can_follow_words_and_too_many_are_refused(gpt2):
    with pytest.raises(UserError, match="nothing precedes"):
        continuation_log_probs(gpt2, [""], ["Jane"])
    prefaced = gpt2.with_preface(preface_ids(gpt2, WORDS))
    assert continuation_log_probs(prefaced, [""], ["Jane"])[0] < 0
    with pytest.raises(UserError, match="exceeds the context"):
        encode(gpt2.with_preface(preface_ids(gpt2, WORDS * 9)), PROMPTS)


# No words


TEXTS = ["Jane is a nurse", "", " ", "naïve café: “good”", "日本 語", "a\n\nb ", "<s> x"]
LONG = st.lists(st.text(max_size=90), max_size=6)


def refusal(read, lm, texts):
    try:
        read(lm, texts)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("padded", [False, True])
def test_encodings_are_those_of_the_tokenizer(lm, padded):
    if padded:  # as some checkpoints have it
        lm.tokenizer.backend_tokenizer.enable_padding(length=50)
        lm.tokenizer.backend_tokenizer.enable_truncation(2)
    table = lm.tokenizer(TEXTS, return_offsets_mapping=True)
    rows = zip(table["input_ids"], table["offset_mapping"], strict=True)
    for encoding, (ids, offsets) in zip(encode(lm, TEXTS), rows, strict=True):
        assert encoding.ids == ids
        assert encoding.offsets == [*map(tuple, offsets)]


@given(texts=LONG)
def test_texts_are_refused_as_if_all_were_tokenised(lm, texts):
    assert refusal(check_texts, lm, texts) == refusal(encode, lm, texts)


def test_a_tokenizer_of_another_model_is_refused(lm):
    other = LanguageModel("other", lm.bridge, load_model(directory()).tokenizer)
    rare = [f" {word}" for word in other.tokenizer.get_vocab()]
    with pytest.raises(UserError, match=r"gives token .*: give the tokenizer that belongs to"):
        check_texts(other, rare)
