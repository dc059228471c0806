"""Templates of thinking models: a text begins behind a closed thought, no special token twice."""

import numpy as np
import pytest
import torch

from countergen_edit.models import (
    continuation_log_probs,
    encode,
    generate,
    in_template,
    load_model,
    replying,
)
from countergen_edit.models.tokens import before_reply, closing, doubled
from tests.tiny_models import BOS, tiny_model_dir

SAYS = "Write."
TURNS = """{% for m in messages %}{% if m.role == 'assistant' %}[A]THOUGHT{{ m.content }}
{% else %}[U]{{ m.content }}
{% endif %}{% endfor %}{% if add_generation_prompt %}[A]PROMPT{% endif %}"""
"""Turns of a conversation; what precedes a finished reply, and what ends a prompt."""
EMPTY = "<think>\n\n</think>\n\n"


def turns(prompt="", thought="", start=""):
    return start + TURNS.replace("THOUGHT", thought).replace("PROMPT", prompt)


def unless(name, value="false"):
    """The end of a prompt with an empty thought, if the template is told so, else an open one."""
    asked = f"{name} is defined and {name} == {value}"
    return f"{{% if {asked} %}}{EMPTY}{{% else %}}<think>\n{{% endif %}}"


TEMPLATES = {
    "Qwen 3": (turns(unless("enable_thinking"), EMPTY), EMPTY, "enable_thinking=False"),
    "DeepSeek V3.1, Granite 3.2": (turns(unless("thinking")), EMPTY, "thinking=False"),
    "reasoning": (turns(unless("reasoning")), EMPTY, "reasoning=False"),
    "a budget": (turns(unless("thinking_budget", "0")), EMPTY, "thinking_budget=0"),
    "always opened": (turns("<think>\n"), EMPTY, ""),
    "always opened, closed in a finished reply": (
        turns("<think>\n", "<think>\nNone.\n</think>\n"),
        "<think>\nNone.\n</think>\n",
        "",
    ),
    "another name of a thought": (turns("<seed:think>"), EMPTY.replace("think", "seed:think"), ""),
    "a thought that is closed": (turns("</think>"), "</think>", ""),
    "no thought, for all its name": (turns("<thinker's tools>"), "<thinker's tools>", ""),
    "nothing in the prompt": (turns("", EMPTY), EMPTY, ""),
    "channels": (turns("", "<|channel|>final<|message|>"), "<|channel|>final<|message|>", ""),
    "a space before replies": (turns("", " "), "", ""),
    "no thoughts": (turns(), "", ""),
    "marked replies": (turns("{% generation %}{%- endgeneration -%}"), "", ""),
    "a word of the template": (turns("", "").replace("[U]", "[thinking]"), "", ""),
    "refuses replies": (
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ raise_exception('no') }}"
        "{% endif %}[U]{{ m.content }}\n{% endfor %}[A]",
        "",
        "",
    ),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny Qwen 3, whose texts have no BOS."""
    return load_model(tiny_model_dir("qwen3", tmp_path_factory.mktemp("qwen3")))


@pytest.mark.parametrize(("template", "begins", "setting"), TEMPLATES.values(), ids=[*TEMPLATES])
def test_a_reply_begins_behind_a_closed_thought(template, begins, setting, model):
    model.tokenizer.chat_template = template
    asked = before_reply(model, SAYS)
    user = "[thinking]" if "[thinking]" in template else "[U]"
    assert asked == f"{user}{SAYS}\n[A]{begins}"
    assert closing(model) == setting
    about = in_template(model, "chat", SAYS).conversation
    assert about.get("closing", "") == setting
    assert ("thought" in about) == begins.strip().endswith(("</think>", "</seed:think>"))


def test_a_reply_is_scored_and_written_behind_the_thought(model):
    """Against transformers' own tokens of the conversation, by one pass over them."""
    model.tokenizer.chat_template, _, _ = TEMPLATES["Qwen 3"]
    asked = model.tokenizer.apply_chat_template(
        [{"role": "user", "content": SAYS}], add_generation_prompt=True, enable_thinking=False
    )
    chat, tokens = in_template(model, "chat", SAYS), model.tokenizer
    before = [*asked["input_ids"], *tokens("Jane is a").input_ids]
    ids = [*before, *tokens(" nurse").input_ids]
    log_p = model.bridge.original_model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    expected = sum(float(log_p[i - 1, ids[i]]) for i in range(len(before), len(ids)))
    closed = continuation_log_probs(chat, ["Jane is a"], [" nurse"])
    np.testing.assert_allclose(closed, expected, atol=1e-4)
    prompt = before_reply(model, SAYS)
    opened = f"{prompt.removesuffix(EMPTY)}<think>\nJane is a"
    assert abs(continuation_log_probs(model, [opened], [" nurse"]) - closed) > 1e-3
    written = generate(model, [f"{prompt}Jane", prompt], max_new_tokens=5)
    assert generate(chat, ["Jane"], max_new_tokens=5) == written[:1]
    assert generate(model, [SAYS], chat=True, max_new_tokens=5) == written[1:]


@pytest.mark.parametrize("family", ["qwen3", "llama"])
@pytest.mark.parametrize("start", ["", "{{ bos_token }}", "\n{{ bos_token }}"])
def test_special_tokens_are_those_of_the_template_or_of_texts_once(start, family, model, tmp_path):
    lm = model if family == "qwen3" else load_model(tiny_model_dir(family, tmp_path))
    tokenizer = lm.tokenizer
    tokenizer.chat_template = turns(start=start)
    chat = in_template(lm, "chat", SAYS)
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": SAYS}], add_generation_prompt=True
    )
    # A template without BOS stands behind that of texts.
    bos = [] if start or not lm.adds_bos else [tokenizer.bos_token_id]
    assert [*chat.preface] == [*bos, *asked["input_ids"]]
    [encoding] = encode(chat, ["Jane is a nurse"])
    plain = tokenizer("Jane is a nurse", add_special_tokens=False).input_ids
    assert encoding.ids == [*chat.preface, *plain]
    assert encoding.ids.count(tokenizer.bos_token_id) == (1 if start else len(bos))
    assert doubled(chat) == []


def test_a_token_that_a_template_writes_twice_is_told(tmp_path):
    llama = load_model(tiny_model_dir("llama", tmp_path))
    llama.tokenizer.chat_template = turns(start="{{ bos_token }}{{ bos_token }}")
    assert doubled(llama) == [BOS]


def test_the_form_beside_plain_texts_is_the_chat_form(model):
    model.tokenizer.chat_template, _, _ = TEMPLATES["Qwen 3"]
    both, chat = (in_template(model, how, SAYS) for how in ("both", "chat"))
    assert both.preface == ()
    replies = replying(both)
    assert (replies.preface, replies.chat) == (chat.preface, chat.chat)
    assert replying(chat) is replying(model) is None
    assert both.conversation == {**chat.conversation, "beside": "plain texts"}
