"""Text to tokens with the model's own tokenizer, and the chat template.

A preface stands after BOS, a reply after its question in the chat template instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, singledispatch
from itertools import pairwise
from typing import Any

from jinja2 import Environment
from jinja2.meta import find_undeclared_variables

from countergen_edit.core.characters import require_encodable
from countergen_edit.core.errors import UserError, require_known
from countergen_edit.models.language_model import INSTRUCTION, Chat, LanguageModel

TODAY = datetime(2024, 7, 26, 12)
"""Date in templates that write today's, so that runs read the same texts (Llama 3.1's)."""
_DIRECTIVES = [f"%{letter}" for letter in ("d", "-d", "m", "b", "B", "Y", "y", "A", "a", "H", "M")]
_THOUGHT = re.compile(r"<(/?)((?:\w+:)?(?:think\w*|thought|reason\w*))>\s*\Z")
"""The end of a prompt after which a model thinks, or, with a slash, has thought."""
NONE, AUTO, CHAT, BOTH = CHAT_MODES = ("none", "auto", "chat", "both")
NO_THOUGHT = {"enable_thinking": False, "thinking": False, "reasoning": False, "thinking_budget": 0}
"""Arguments of templates against thoughts: Qwen 3 reads the first, Granite 3.2, DeepSeek
V3.1 and Kimi K2.5 the second."""
_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
"""Tags of transformers' own, around a reply."""
_REPLY = "@reply@"


def before_reply(lm: LanguageModel, message: str) -> str:
    """A user's message in the chat template, up to where the model's reply begins.

    A template that thinks before a reply gets `NO_THOUGHT`. The reply begins where that of a
    finished conversation would, behind a closed thought or a channel; behind an empty thought, if
    the prompt opens one all the same. `UserError` without a template, or if it rejects the message.
    """
    if not lm.tokenizer.chat_template:
        raise UserError(f"{lm.name} has no chat template, and so nobody to ask it anything")
    messages = [{"role": "user", "content": message}]
    render = partial(
        lm.tokenizer.apply_chat_template,
        chat_template=_dated(lm.tokenizer.chat_template),
        tokenize=False,
        **NO_THOUGHT,
    )
    try:
        prompt = str(render(messages, add_generation_prompt=True))
    except Exception as error:  # a template is a program of its own, and fails in its own way
        why = " ".join(str(error).split())
        raise UserError(f"the chat template of {lm.name} takes no user's message: {why}") from error
    with suppress(Exception):  # and may take no reply
        finished = str(render([*messages, {"role": "assistant", "content": _REPLY}]))
        before = finished.rpartition(_REPLY)[0]
        if before.startswith(prompt) and before.removeprefix(prompt).strip():
            return before
    return _THOUGHT.sub(lambda m: m[0] if m[1] else f"<{m[2]}>\n\n</{m[2]}>\n\n", prompt)


def closing(lm: LanguageModel) -> str:
    """The part of `NO_THOUGHT` that the template reads: "enable_thinking=False"."""
    text = _GENERATION.sub("", str(_dated(lm.tokenizer.chat_template)))
    parsed = Environment(extensions=["jinja2.ext.loopcontrols"]).parse(text)
    read = find_undeclared_variables(parsed)
    return ", ".join(f"{name}={value}" for name, value in NO_THOUGHT.items() if name in read)


def _dated(template: Any) -> Any:
    """The template with a macro that fixes today as `TODAY`."""
    if isinstance(template, dict):
        template = template.get("default")
    if template is None or "strftime_now" not in template:
        return template
    filters = "".join(f" | replace('{d}', '{TODAY.strftime(d)}')" for d in _DIRECTIVES)
    return (
        f"{{%- macro strftime_now(format) -%}}{{{{ format{filters} }}}}{{%- endmacro -%}}{template}"
    )


@dataclass(frozen=True)
class Encoding:
    """Token ids of a text and their characters, (0, 0) for special tokens."""

    ids: list[int]
    offsets: list[tuple[int, int]]

    def after(self, start: int) -> list[int]:
        """The tokens that show text beyond character `start`, straddling ones included.

        >>> Encoding([7, 3, 4], [(0, 0), (0, 3), (3, 6)]).after(2)
        [1, 2]
        >>> Encoding([7, 3, 4], [(0, 0), (0, 3), (3, 6)]).after(3)
        [2]
        """
        return [k for k, (_, end) in enumerate(self.offsets) if end > start]


def encode(lm: LanguageModel, texts: Sequence[str]) -> list[Encoding]:
    """Tokenise texts after the preface; `UserError` if too long or foreign."""
    if not texts:
        return []
    return lm.memo(("tokens", *texts), lambda: _encode(lm, texts, [lm.preface] * len(texts)))


def encode_replies(
    lm: LanguageModel, questions: Sequence[str], replies: Sequence[str]
) -> list[Encoding]:
    """Tokenise each reply after its question (and the chat's request) in the chat template.

    The tokens of the question cover no characters. `UserError` as for `encode` and `before_reply`.
    """
    if not replies:
        return []

    def make() -> list[Encoding]:
        before = {
            question: preface_ids(lm, before_reply(lm, lm.chat.message(question)))
            for question in dict.fromkeys(questions)
        }
        return _encode(lm, replies, [before[question] for question in questions])

    return lm.memo(("replies", *zip(questions, replies, strict=True)), make)


@singledispatch
def check_texts(lm: LanguageModel, texts: Iterable[str]) -> None:
    """Raise the `UserError` that `encode` would, without tokenising texts that cannot be too long.

    A token stands for at least one byte, but for those before a text and some tokenizers' space.
    """
    most = lm.context_length - len(opening_ids(lm)) - 1
    is_foreign = max(lm.tokenizer.get_vocab().values()) >= lm.vocab_size
    require_encodable(distinct := [*dict.fromkeys(texts)], "texts: ")
    encode(lm, [text for text in distinct if is_foreign or len(text.encode()) > most])


@singledispatch
def lengths(lm: LanguageModel, texts: Sequence[str]) -> list[int]:
    """Numbers of tokens, estimated on a server; `UserError` beyond the context."""
    return [len(encoding.ids) for encoding in encode(lm, texts)]


def _encode(
    lm: LanguageModel, texts: Sequence[str], prefaces: Sequence[tuple[int, ...]]
) -> list[Encoding]:
    require_encodable(texts, "texts: ")
    # The tokenizer's own call takes twice as long.
    backend = lm.tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    table = backend.encode_batch(list(texts))
    opening = len(_first(lm))
    encodings = []
    for text, preface, encoding in zip(texts, prefaces, table, strict=True):
        first = opening if preface else 0
        ids = [*preface, *encoding.ids[first:]]
        if len(ids) > lm.context_length:
            raise UserError(
                f"a text of {len(ids)} tokens exceeds the context of {lm.name} "
                f"({lm.context_length}): {excerpt(text)}"
            )
        if ids and max(ids) >= lm.vocab_size:
            raise UserError(
                f"the tokenizer gives token {max(ids)}, but {lm.name} knows only "
                f"{lm.vocab_size}: give the tokenizer that belongs to the model"
            )
        encodings.append(Encoding(ids, [*[(0, 0)] * len(preface), *encoding.offsets[first:]]))
    return encodings


def preface_ids(lm: LanguageModel, words: str) -> tuple[int, ...]:
    """Tokens of words before texts, special ones written out.

    They stand after BOS if texts have it, unless the words hold it, as a chat template's may.
    """
    ids = lm.tokenizer(words, add_special_tokens=False, verbose=False).input_ids
    first = _first(lm)
    return tuple(ids if {*first} & {*ids} else [*first, *ids])


def doubled(lm: LanguageModel) -> list[str]:
    """The special tokens that the chat template writes twice in a row."""
    ids = preface_ids(lm, before_reply(lm, lm.chat.instruction))
    special = {*lm.tokenizer.all_special_ids}
    twice = dict.fromkeys(a for a, b in pairwise(ids) if a == b and a in special)
    return [str(token) for token in lm.tokenizer.convert_ids_to_tokens([*twice])]


def opening_ids(lm: LanguageModel) -> tuple[int, ...]:
    """The tokens before a text: the preface, or the tokenizer's special tokens."""
    return lm.preface or tuple(_first(lm))


def first_read(lm: LanguageModel) -> int:
    """The first position after which a text's own token is predicted."""
    return max(len(lm.preface) - 1, 0)


@singledispatch
def opens_texts(lm: LanguageModel) -> bool:
    """Whether BOS or a chat template of all texts stands before the first token of a text.

    Another preface does not count: texts are measured without it as well.
    """
    return lm.chat.is_on or bool(_first(lm))


def _first(lm: LanguageModel) -> list[int]:
    """The special tokens that the tokenizer puts before a text."""
    table = lm.tokenizer("a", return_special_tokens_mask=True)
    return list(table["input_ids"][: table["special_tokens_mask"].index(0)])


def split_names(lm: LanguageModel, names: Iterable[str]) -> dict[str, int]:
    """Name → its number of tokens after a space."""
    return {name: len(lm.tokenizer.tokenize(f" {name}")) for name in names}


def excerpt(text: str) -> str:
    """The start of a text, quoted on one line, for an error."""
    return repr(text if len(text) <= 60 else text[:59] + "…")


def in_template(lm: LanguageModel, template: str, instruction: str | None = None) -> LanguageModel:
    """Put a model's texts in its chat template, after an instruction, or leave them as they are.

    `template` is one of `CHAT_MODES`, of which "auto" uses a template where there is one and the
    model scores texts, and "both" leaves texts as they are and measures test data as replies too;
    `instruction` is the user's message, `INSTRUCTION` by default. `UserError` if `template` is
    unknown, or needs a template and the model has no usable one.
    """
    require_known("template", template, CHAT_MODES)
    chat = Chat(INSTRUCTION if instruction is None else instruction)
    lm = replace(lm, chat=chat, preface=())
    why = "" if lm.tokenizer.chat_template else "has no chat template"
    if lm.is_encoder_decoder:
        why = "is an encoder-decoder model, whose texts stand in no conversation"
    if template in (CHAT, BOTH) and why:
        raise UserError(
            f"template={template}, but {lm.name} {why}: use template=auto, which takes a chat "
            "template where there is one, or template=none"
        )
    if template == NONE or why:
        return lm
    before = before_reply(lm, lm.chat.instruction)
    how: dict[str, Any] = {"thinks": bool(_THOUGHT.search(before)), "closing": closing(lm)}
    if template == BOTH:
        return replace(lm, chat=replace(lm.chat, is_beside=True, **how))
    return replace(lm, chat=replace(lm.chat, is_on=True, **how), preface=preface_ids(lm, before))


def mode_of(conversation: Mapping[str, str] | None) -> str:
    """The mode of `in_template` behind a record of `LanguageModel.conversation`."""
    return NONE if not conversation else BOTH if "beside" in conversation else CHAT


def replying(lm: LanguageModel) -> LanguageModel | None:
    """The model with texts as replies, where test data are also measured so."""
    return in_template(lm, CHAT, lm.chat.instruction) if lm.chat.is_beside else None
