"""Whether texts stand in the chat template: one decision, when a model is loaded.

In: a model and the decision. Out: the same model, every text of which is the beginning of its reply
to an instruction; it is scored, written, captured and contrasted there. Refused: a model without a
template where one is asked for.
"""

from __future__ import annotations

from dataclasses import replace

from countergen_edit.errors import UserError, unknown
from countergen_edit.models.chat import before_reply, has_chat_template
from countergen_edit.models.language_model import INSTRUCTION, Chat, LanguageModel
from countergen_edit.models.tokens import preface_ids

NONE, AUTO, CHAT = TEMPLATES = ("none", "auto", "chat")


def in_template(lm: LanguageModel, template: str, instruction: str | None = None) -> LanguageModel:
    """A model whose texts stand in its chat template, or as they are.

    Args:
        lm: as it was loaded.
        template: `none`; `auto`, where it has a template and scores texts; `chat`.
        instruction: what a user says there; None takes ours.

    Raises:
        UserError: `template` is another word; it is `chat`, and the model has none, is an
            encoder-decoder model, or its template takes no user's message.
    """
    if template not in TEMPLATES:
        raise unknown("template", template, TEMPLATES)
    lm = replace(lm, chat=Chat(INSTRUCTION if instruction is None else instruction))
    why = _why_not(lm)
    if template == CHAT and why:
        raise UserError(
            f"template=chat, but {lm.name} {why}: use template=auto, which takes a chat template "
            "where there is one, or template=none"
        )
    if template == NONE or why:
        return lm
    lm = replace(lm, chat=replace(lm.chat, is_on=True))
    return replace(lm, preface=preface_ids(lm, before_reply(lm, lm.chat.instruction)))


def _why_not(lm: LanguageModel) -> str:
    """Why texts cannot stand in a template; empty where they can."""
    if lm.is_encoder_decoder:
        return "is an encoder-decoder model, whose texts stand in no conversation"
    return "" if has_chat_template(lm) else "has no chat template"
