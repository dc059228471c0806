"""Text to tokens, with the model's own tokenizer and its default special tokens.

In: texts. Out: token ids, each with the characters it covers. Whether a text begins with the
beginning-of-text token (BOS) is decided once, when the model is loaded (`set_bos`), and the
tokenizer carries the decision: into scoring, capture, generation, and every saved checkpoint.
Where a model has a preface, it stands first, and BOS before it and not between the two. A reply to
a question of its own stands after that question in the chat template, and not after the preface.
Refused: a text longer than the context; a tokenizer that belongs to another model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch

from countergen_edit.errors import UserError
from countergen_edit.models.chat import before_reply
from countergen_edit.models.language_model import LanguageModel


@dataclass(frozen=True)
class Encoding:
    """Token ids of one text; `offsets` are character spans, (0, 0) for added special tokens."""

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
    """Tokenise each text as the tokenizer does by itself, which `set_bos` decided.

    A Llama keeps its BOS and a GPT-2 gets none, unless the model was loaded with `bos`. The tokens
    of a preface cover no characters, as special tokens do, and the text's own stay what they are.
    """
    if not texts:
        return []
    before = [lm.preface] * len(texts)
    return lm.memo(("tokens", *texts), lambda: _encode(lm, texts, before))


def encode_replies(
    lm: LanguageModel, questions: Sequence[str], replies: Sequence[str]
) -> list[Encoding]:
    """Tokenise each reply after its question, which a user asks in the chat template.

    The tokens of the question cover no characters. What else a user says of a model's own, as its
    request, stands before the question; its instruction does not.

    Raises:
        UserError: the model has no template, or one that takes no user's message.
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
def lengths(lm: LanguageModel, texts: Sequence[str]) -> list[int]:
    """How many tokens each text has; a model that is served has about so many.

    Raises:
        UserError: a text exceeds the context.
    """
    return [len(encoding.ids) for encoding in encode(lm, texts)]


def _encode(
    lm: LanguageModel, texts: Sequence[str], prefaces: Sequence[tuple[int, ...]]
) -> list[Encoding]:
    table = lm.tokenizer(
        list(texts),
        return_offsets_mapping=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        padding=False,
        truncation=False,
        verbose=False,
    )
    context, vocabulary = lm.context_length, lm.vocab_size
    opening = len(_first(lm))
    encodings = []
    for text, preface, own, spans in zip(
        texts, prefaces, table["input_ids"], table["offset_mapping"], strict=True
    ):
        first = opening if preface else 0
        ids = [*preface, *own[first:]]
        offsets = [*[(0, 0)] * len(preface), *spans[first:]]
        if len(ids) > context:
            raise UserError(
                f"a text of {len(ids)} tokens exceeds the context of {lm.name} "
                f"({context}): {excerpt(text)}"
            )
        if ids and max(ids) >= vocabulary:
            raise UserError(
                f"the tokenizer gives token {max(ids)}, but {lm.name} knows only "
                f"{vocabulary}: give the tokenizer that belongs to the model"
            )
        encodings.append(Encoding(ids, offsets))
    return encodings


def preface_ids(lm: LanguageModel, words: str) -> tuple[int, ...]:
    """The tokens of words that are to stand before every text.

    Special tokens may stand in them as a chat template writes them. They begin as the model's texts
    do: with BOS, once, where texts begin with it.
    """
    ids = lm.tokenizer(words, add_special_tokens=False, verbose=False).input_ids
    first = _first(lm)
    return tuple(ids if ids[: len(first)] == first else [*first, *ids])


def opening_ids(lm: LanguageModel) -> tuple[int, ...]:
    """The tokens before a text's own: the preface, or what its tokenizer puts there."""
    return lm.preface or tuple(_first(lm))


def first_read(lm: LanguageModel) -> int:
    """The first position that is a text's own: after it the first token of a text is predicted.

    What stands within a preface is the same for every text.
    """
    return max(len(lm.preface) - 1, 0)


@singledispatch
def opens_texts(lm: LanguageModel) -> bool:
    """Whether something stands before the first token of a text: BOS, or a token that is as good.

    A chat template within which all texts stand is as good. Any other preface does not count: it is
    put before texts that are measured without one as well.
    """
    return lm.chat.is_on or bool(_first(lm))


def _first(lm: LanguageModel) -> list[int]:
    """The special tokens that the tokenizer puts before a text."""
    table = lm.tokenizer("a", return_special_tokens_mask=True)
    own = table["special_tokens_mask"].index(0)
    ids: list[int] = table["input_ids"][:own]
    return ids


def split_names(lm: LanguageModel, names: Iterable[str]) -> dict[str, int]:
    """Name → how many tokens it takes after a space; one is a name that the tokenizer knows."""
    return {name: len(lm.tokenizer.tokenize(f" {name}")) for name in names}


def excerpt(text: str) -> str:
    """The start of a text, quoted on one line, for an error."""
    return repr(text if len(text) <= 60 else text[:59] + "…")
