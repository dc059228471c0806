"""Words that a model is told before it writes: through its chat template, where it has one.

Comes in: a model and a message. Goes out: all that stands before the reply, special tokens written
out, so that a text after it is the beginning of what the model says. Refused: a model without a
template, a template that cannot take one message of a user.
"""

from __future__ import annotations

from datetime import datetime
from functools import singledispatch
from typing import Any

from countergen_edit.errors import UserError
from countergen_edit.models.language_model import LanguageModel

TODAY = datetime(2024, 7, 26, 12)
"""What a template is told that writes today's date: a run of tomorrow is to read the same texts.
That of Llama 3.1 writes this day where it is told none."""
_DIRECTIVES = [f"%{letter}" for letter in ("d", "-d", "m", "b", "B", "Y", "y", "A", "a", "H", "M")]


def has_chat_template(lm: LanguageModel) -> bool:
    """Whether the model's tokenizer says how a conversation is written."""
    return bool(getattr(lm.tokenizer, "chat_template", None))


def before_reply(lm: LanguageModel, message: str) -> str:
    """A conversation of one message of a user, up to where the model's reply begins.

    Not every template takes a system's message; each takes a user's.

    Raises:
        UserError: there is no template, or it refuses the message.
    """
    if not has_chat_template(lm):
        raise UserError(f"{lm.name} has no chat template, and so nobody to ask it anything")
    try:
        text = lm.tokenizer.apply_chat_template(
            [{"role": "user", "content": message}],
            chat_template=_dated(lm.tokenizer.chat_template),
            tokenize=False,
            add_generation_prompt=True,
        )
    except Exception as error:  # a template is a program of its own, and fails in its own way
        why = " ".join(str(error).split())
        raise UserError(f"the chat template of {lm.name} takes no user's message: {why}") from error
    return str(text)


def _dated(template: Any) -> Any:
    """The template that `apply_chat_template` takes, in which today is `TODAY`.

    transformers hands a template plain data alone, and no function of ours: it is a macro.
    """
    if isinstance(template, dict):
        template = template.get("default")
    if template is None or "strftime_now" not in template:
        return template
    written = "".join(f" | replace('{d}', '{TODAY.strftime(d)}')" for d in _DIRECTIVES)
    return (
        f"{{%- macro strftime_now(format) -%}}{{{{ format{written} }}}}{{%- endmacro -%}}{template}"
    )


@singledispatch
def instructed(lm: LanguageModel, message: str) -> str:
    """What a model continues with its reply to a message, to be given to `generate`.

    Where it has no chat template that is the message alone; a server's completions have none. The
    model is to be `alone`: in a conversation, this would begin another inside.

    Raises:
        UserError: the template refuses it.
    """
    if not has_chat_template(lm):
        return message
    text = before_reply(lm, message)
    # A template may write BOS itself, which the tokenizer then writes again.
    return text.removeprefix(lm.tokenizer.bos_token) if lm.adds_bos else text
