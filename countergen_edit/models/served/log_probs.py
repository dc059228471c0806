"""What an answer says of the likelihood of a text's tokens, in either of two ways.

In: the answer to a request for a text's own log-probabilities: OpenAI's (`echo` with `logprobs`) or
vLLM's (`prompt_logprobs`). Out: the text's tokens as spans of characters, each with its natural
log-probability. Special tokens before the text, and what was written after it, are left out.
Refused: an answer without log-probabilities, and tokens that do not make up the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from countergen_edit.errors import UserError
from countergen_edit.models.tokens import excerpt

NONE = "none"
_SPECIAL = 3  # most special tokens before a text


@dataclass(frozen=True)
class Token:
    """A token of a text."""

    start: int
    end: int
    """Characters of the text that it shows: from the first up to the one after the last."""
    log_p: float | None
    """None where nothing precedes it."""


def _echoed(choice: Mapping[str, Any], text: str) -> list[Token]:
    """OpenAI's: tokens and their log-probabilities, the prompt's first."""
    content = choice["logprobs"]
    tokens, values = content["tokens"], content["token_logprobs"]
    spans = _by_pieces(tokens, text) or _by_offsets(content.get("text_offset") or [], text)
    return [
        Token(start, min(end, len(text)), None if value is None else float(value))
        for (start, end), value in zip(spans, values, strict=False)
        if 0 <= start < len(text)
    ]


def _of_prompt(choice: Mapping[str, Any], text: str) -> list[Token]:
    """vLLM's: of each token of the prompt its own entry, first if there are others; of none before.

    The first token has no entry, and is what the others leave of the text.
    """
    rest = [next(iter(entry.values())) for entry in choice["prompt_logprobs"][1:]]
    pieces = [entry["decoded_token"] for entry in rest]
    left = len(text) - sum(map(len, pieces))
    if left < 0 or text[left:] != "".join(pieces):
        return []
    ends = list(accumulate(map(len, pieces), initial=left))
    tokens = [Token(0, left, None)] if left else []
    for (start, end), entry in zip(pairwise(ends), rest, strict=True):
        tokens.append(Token(start, end, float(entry["logprob"])))
    return tokens


READERS: Mapping[str, tuple[Mapping[str, Any], Callable[[Mapping[str, Any], str], list[Token]]]] = {
    # One token is written too: some servers take 0 for as many as there is room for.
    "echo": ({"echo": True, "logprobs": 1}, _echoed),
    "prompt": ({"prompt_logprobs": 0}, _of_prompt),
}
"""Setting → what a request asks for, and what reads the answer."""


def tokens_of(way: str, choice: Mapping[str, Any], text: str, name: str) -> list[Token]:
    """The tokens of a text, in order.

    Args:
        way: of `READERS`.
        choice: of the answer.
        text: that was sent.
        name: of the model, for errors.

    Raises:
        UserError: the server says nothing of it, or of another text.
    """
    _, read = READERS[way]
    key = "logprobs" if way == "echo" else "prompt_logprobs"
    said = choice.get(key)
    if not said or (isinstance(said, Mapping) and not said.get("tokens")):
        raise UserError(
            f"{name} is served without log-probabilities of a prompt (no {key!r} in the answer): "
            f"try model.log_probs={'prompt' if way == 'echo' else 'echo'}, or measure what it "
            "writes, metric=[fairpair]"
        )
    tokens = read(choice, text)
    if not tokens or tokens[0].start or tokens[-1].end != len(text):
        raise UserError(
            f"the tokens that {name} is served with do not make up the text {excerpt(text)}: its "
            "likelihood cannot be read off them"
        )
    return tokens


def _by_pieces(tokens: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Spans of tokens that are the text, and more, but for special ones before it.

    A SentencePiece tokenizer may show a space before the first word that is not in the text.
    """
    for first in range(min(_SPECIAL, len(tokens))):
        for space in ("", " "):
            if "".join(tokens[first:]).startswith(space + text):
                ends = list(accumulate(map(len, tokens[first:]), initial=-len(space)))
                spans = [(max(a, 0), b) for a, b in pairwise(ends)]
                return [(-1, -1)] * first + spans
    return []


def _by_offsets(offsets: Sequence[int], text: str) -> list[tuple[int, int]]:
    """Spans from where each token begins, for tokens of which some are parts of a character."""
    if not offsets or offsets[0] != 0:
        return []
    return list(zip(offsets, [*offsets[1:], max(len(text), offsets[-1])], strict=True))
