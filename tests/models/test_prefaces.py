"""Words before every text, of a preface or a chat template: the same tokens follow, by one path."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from countergen_edit import api
from countergen_edit.core.errors import UserError
from countergen_edit.edits import Edit, applied
from countergen_edit.metrics.costs.neutral import neutral_cost
from countergen_edit.models import (
    LanguageModel,
    after_preface,
    batches,
    capture,
    connect,
    continuation_log_probs,
    contrastive_generate,
    encode,
    generate,
    in_template,
    load,
    preface_ids,
    resuming,
    text_log_probs,
)
from countergen_edit.models.language_model import INSTRUCTION
from countergen_edit.models.tokens import before_reply, instructed
from tests.tiny_models import FAMILIES, tiny_model_dir

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
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a chat template, whose texts begin with BOS in one family of two."""
    folder = Path(tiny_model_dir(request.param, tmp_path_factory.mktemp(request.param)))
    tokenizer = load(folder).tokenizer
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> LanguageModel:
    return load(folder, template="chat", instruction="Write.")


def conversation(model: LanguageModel, message: str) -> list[int]:
    """The tokens before a reply, made by hand."""
    bos = "<s>" if model.tokenizer.bos_token == "<s>" else ""
    text = f"{bos}<user>{message}\n<assistant>"
    ids: list[int] = model.tokenizer(text, add_special_tokens=False).input_ids
    return ids


def plain_ids(model: LanguageModel, text: str) -> list[int]:
    ids: list[int] = model.tokenizer(text, add_special_tokens=False).input_ids
    return ids


def log_p(model: LanguageModel, ids: list[int]) -> Any:
    """Of every token of a row but the first, by one plain pass over it alone."""
    logits = model.bridge.original_model(torch.tensor([ids])).logits[0].double()
    return logits.log_softmax(-1)[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def by_hand(model: LanguageModel, before: list[int], prompt: str, output: str) -> float:
    """log P of the output's tokens by one plain pass over the concatenated ids, one text alone."""
    start = len(before) + len(plain_ids(model, prompt))
    return float(log_p(model, [*before, *plain_ids(model, prompt + output)])[start - 1 :].sum())


@pytest.fixture(scope="module", params=FAMILIES)
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return load(tiny_model_dir(request.param, tmp_path_factory.mktemp(request.param)))


def test_it_is_decided_when_a_model_is_loaded(folder: Path, model: LanguageModel) -> None:
    for how in ({"template": "auto"}, {"template": "chat"}):
        own = load(folder, **how)
        assert list(own.preface) == conversation(own, INSTRUCTION)
        assert own.conversation == {**model.conversation, "instruction": INSTRUCTION}  # type: ignore[dict-item]
    plain = load(folder)
    assert (plain.preface, plain.conversation, plain.chat.is_on) == ((), None, False)
    assert list(model.preface) == conversation(model, "Write.")
    assert model.alone().preface == ()
    assert model.alone().conversation is None
    assert plain.alone() is plain
    assert model.fingerprint == plain.fingerprint


def test_a_model_without_a_template_is_refused_or_left_as_it_is(tmp_path: Path) -> None:
    folder = tiny_model_dir("gpt2", tmp_path / "gpt2")
    assert load(folder, template="auto").preface == ()
    expected = "template=chat, but .* has no chat template: use template=auto"
    with pytest.raises(UserError, match=expected) as error:
        load(folder, template="chat")
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="but testbed has no chat template"):
        api.load("testbed", template="chat")
    with pytest.raises(UserError, match="unknown template 'cat': did you mean 'chat'"):
        load(folder, template="cat")
    with pytest.raises(UserError, match="has no chat template"):
        before_reply(load(folder), "Hello.")


def test_an_encoder_decoder_model_stands_in_no_conversation(tmp_path: Path) -> None:
    model = load(tiny_model_dir("t5", tmp_path / "t5"))
    model.tokenizer.chat_template = TEMPLATE
    assert in_template(model, "auto").preface == ()
    with pytest.raises(UserError, match="is an encoder-decoder model, whose texts stand in no"):
        in_template(model, "chat")


def test_a_server_that_continues_texts_has_none() -> None:
    with pytest.raises(UserError, match="continues texts and has no chat template"):
        connect("http://127.0.0.1:9/v1", template="chat")
    with pytest.raises(UserError, match="unknown template"):
        connect("http://127.0.0.1:9/v1", template="cat")


def test_texts_are_scored_as_the_beginning_of_a_reply(model: LanguageModel) -> None:
    before = conversation(model, "Write.")
    expected = [by_hand(model, before, p, o) for p, o in zip(PROMPTS, OUTPUTS, strict=True)]
    np.testing.assert_allclose(continuation_log_probs(model, PROMPTS, OUTPUTS), expected, atol=1e-4)


def test_the_first_token_of_a_text_counts_as_it_is_the_replys(model: LanguageModel) -> None:
    before = conversation(model, "Write.")
    scores = text_log_probs(model, [""] * len(PROMPTS), PROMPTS)
    for prompt, value, tokens in zip(PROMPTS, scores.log_p, scores.tokens, strict=True):
        every = log_p(model, [*before, *plain_ids(model, prompt)])
        assert value == pytest.approx(float(every[len(before) - 1 :].sum()), abs=1e-4)
        assert tokens == len(plain_ids(model, prompt))


def test_a_reply_stands_after_its_own_question(model: LanguageModel) -> None:
    questions, replies = ["Is she late?", "Is she late?", "Who left?"], ["Yes", "No", "Jane did"]
    for own in (model, resuming(model, [0])):
        scores = text_log_probs(own, questions, replies, chat=True)
        for question, reply, value in zip(questions, replies, scores.log_p, strict=True):
            before = conversation(model, question)
            every = log_p(model, [*before, *plain_ids(model, reply)])
            assert value == pytest.approx(float(every[len(before) - 1 :].sum()), abs=1e-4)
    # What a user says of a model's own stands before the question, in place of the instruction.
    with applied(model, Edit((), "anything", "Be fair.")) as fair:
        [value] = text_log_probs(fair, questions[:1], replies[:1], chat=True).log_p
    before = conversation(model, "Be fair. Is she late?")
    every = log_p(model, [*before, *plain_ids(model, "Yes")])
    assert value == pytest.approx(float(every[len(before) - 1 :].sum()), abs=1e-4)


def test_what_is_written_and_captured_follows_the_template(
    folder: Path, model: LanguageModel
) -> None:
    before = conversation(model, "Write.")
    plain = model.alone()
    words = before_reply(model, "Write.").removeprefix("<s>" if model.adds_bos else "")
    told = [f"{words}{prompt}" for prompt in PROMPTS]
    assert generate(model, PROMPTS, max_new_tokens=4) == generate(plain, told, max_new_tokens=4)
    asked = generate(model, PROMPTS, chat=True, max_new_tokens=4)
    requests = [instructed(plain, prompt) for prompt in PROMPTS]
    assert asked == generate(plain, requests, max_new_tokens=4)
    [own], [by_hand] = (
        contrastive_generate(lm, [x[0]], [x[1]], 3.0, max_new_tokens=4, top_k=5)
        for lm, x in ((model, PROMPTS), (plain, told))
    )
    assert own.tokens == by_hand.tokens
    np.testing.assert_allclose(own.divergence, by_hand.divergence, atol=1e-6)
    values = capture(model, PROMPTS[:1], layers=[1]).values["resid_post"][0, 0]
    row = torch.tensor([[*before, *plain_ids(model, PROMPTS[0])]])
    _, cache = model.bridge.run_with_cache(row, names_filter="blocks.1.hook_out")
    np.testing.assert_allclose(values, cache["blocks.1.hook_out"][0, -1], atol=1e-4)


def test_running_text_is_read_at_its_own_tokens_alone(model: LanguageModel) -> None:
    before = conversation(model, "Write.")
    request = conversation(model, "Be fair. Write.")
    asking = Edit((), before_reply(model, "Be fair. Write."), "Be fair.")
    nll = [
        [
            -float(log_p(model, [*words, *plain_ids(model, text)])[len(words) - 1 :].sum())
            for text in NEUTRAL
        ]
        for words in (before, request)
    ]
    for own in (model, resuming(model, [0])):
        cost = neutral_cost(own, asking, NEUTRAL)
        np.testing.assert_allclose(cost.nll_unedited, nll[0], rtol=1e-5)
        np.testing.assert_allclose(cost.nll_edited, nll[1], rtol=1e-5)
        assert cost.tokens.tolist() == [len(plain_ids(model, text)) for text in NEUTRAL]
    unedited = neutral_cost(model, Edit(()), NEUTRAL)
    np.testing.assert_allclose(unedited.kl, 0, atol=1e-9)
    asked = model.with_preface(preface_ids(model, asking.preface))
    for batch in batches(model, NEUTRAL):
        other = after_preface(asked, batch, model)
        for one, tokens, position in ((batch, before, batch.position), (other, request, None)):
            assert one.position.min() == len(tokens) - 1
            assert position is None or one.slot.max() + 1 == len(position)


def test_models_that_remember_tell_conversations_apart(model: LanguageModel) -> None:
    """One memory serves a model within its template, in another, and without one."""
    resumed = resuming(model, [0])
    other = in_template(model.alone(), "chat", "Say something.")
    for chat, preface in (
        (model.chat, model.preface),
        (other.chat, other.preface),
        (model.alone().chat, ()),
        (model.chat, model.preface),
    ):
        own = replace(resumed, chat=chat, preface=preface)
        plain = replace(model, chat=chat, preface=preface)
        for asked in (False, True):
            np.testing.assert_allclose(
                text_log_probs(own, PROMPTS, OUTPUTS, chat=asked).log_p,
                text_log_probs(plain, PROMPTS, OUTPUTS, chat=asked).log_p,
                atol=1e-5,
            )


def test_a_template_that_writes_todays_date_writes_the_same_tomorrow(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = model.conversation
    dated = "{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m['content'] }}{% endfor %}"
    monkeypatch.setattr(model.tokenizer, "chat_template", dated)
    assert before_reply(model, "!") == "26 Jul 2024!"
    assert told != model.conversation
    refusing = "{{ raise_exception('only\ntools') }}"
    monkeypatch.setattr(model.tokenizer, "chat_template", refusing)
    with pytest.raises(UserError, match="takes no user's message: only tools"):
        before_reply(model, "hello")


def test_scores_after_a_preface_are_those_of_the_concatenated_ids(bare: LanguageModel) -> None:
    bos = [bare.tokenizer.bos_token_id] if bare.adds_bos else []
    before = [*bos, *plain_ids(bare, WORDS)]
    prefaced = bare.with_preface(preface_ids(bare, WORDS))
    expected = [by_hand(bare, before, p, o) for p, o in zip(PROMPTS, OUTPUTS, strict=True)]
    np.testing.assert_allclose(
        continuation_log_probs(prefaced, PROMPTS, OUTPUTS), expected, atol=1e-4
    )
    unprefaced = continuation_log_probs(bare, PROMPTS, OUTPUTS)
    assert np.abs(unprefaced - expected).min() > 1e-3


def test_whole_texts_are_scored_on_the_same_tokens_with_a_preface_and_without(
    bare: LanguageModel,
) -> None:
    prefaced = bare.with_preface(preface_ids(bare, WORDS))
    before, after = (text_log_probs(own, [""] * len(PROMPTS), PROMPTS) for own in (bare, prefaced))
    assert before.tokens.tolist() == after.tokens.tolist()
    assert np.abs(before.log_p - after.log_p).min() > 1e-3


def test_the_texts_own_tokens_stay_what_they_are(bare: LanguageModel) -> None:
    prefaced = bare.with_preface(preface_ids(bare, WORDS))
    own = int(bare.adds_bos)
    for with_words, without in zip(encode(prefaced, PROMPTS), encode(bare, PROMPTS), strict=True):
        count = len(without.ids) - own
        assert with_words.ids[-count:] == without.ids[own:]
        assert with_words.offsets[-count:] == without.offsets[own:]
        assert set(with_words.offsets[:-count]) == {(0, 0)}


def test_what_is_written_after_a_preface_is_what_follows_all_of_it(bare: LanguageModel) -> None:
    prefaced = bare.with_preface(preface_ids(bare, WORDS))
    written = generate(prefaced, PROMPTS, max_new_tokens=5)
    for prompt, text in zip(PROMPTS, written, strict=True):
        row = [*preface_ids(bare, WORDS), *plain_ids(bare, prompt)]
        out = bare.bridge.original_model.generate(
            torch.tensor([row]), max_new_tokens=5, do_sample=False, pad_token_id=0
        )[0].tolist()
        decode = bare.tokenizer.decode
        whole = decode(out, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert whole.endswith(text)
        assert prompt + text in whole
    assert written == [generate(prefaced, [p], max_new_tokens=5)[0] for p in PROMPTS]


def test_what_is_captured_after_a_preface_is_what_the_text_has_there(bare: LanguageModel) -> None:
    prefaced = bare.with_preface(preface_ids(bare, WORDS))
    last = capture(prefaced, PROMPTS, layers=[1]).values["resid_post"][0]
    alone = [capture(prefaced, [p], layers=[1]).values["resid_post"][0, 0] for p in PROMPTS]
    np.testing.assert_allclose(last, alone, atol=1e-5)
    assert np.abs(last - capture(bare, PROMPTS, layers=[1]).values["resid_post"][0]).max() > 1e-3
    every = capture(prefaced, PROMPTS, layers=[1], starts=[0] * len(PROMPTS), positions="onward")
    own = [len(plain_ids(bare, prompt)) for prompt in PROMPTS]
    assert np.bincount(every.row_text).tolist() == own


def test_an_empty_prompt_can_follow_words(tmp_path: Path) -> None:
    bare = load(tiny_model_dir("gpt2", tmp_path))
    with pytest.raises(UserError, match="nothing precedes"):
        continuation_log_probs(bare, [""], ["Jane"])
    prefaced = bare.with_preface(preface_ids(bare, WORDS))
    assert continuation_log_probs(prefaced, [""], ["Jane"])[0] < 0


def test_words_that_leave_no_room_are_refused(tmp_path: Path) -> None:
    bare = load(tiny_model_dir("gpt2", tmp_path))
    prefaced = bare.with_preface(preface_ids(bare, WORDS * 9))
    with pytest.raises(UserError, match="exceeds the context"):
        encode(prefaced, PROMPTS)
