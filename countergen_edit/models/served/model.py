"""A model behind a server, and the likelihoods in its answers."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.writing import digest
from countergen_edit.models.language_model import Asked, LanguageModel
from countergen_edit.models.served.server import Request, Server
from countergen_edit.models.tokens import CHAT, TEMPLATES, excerpt

NONE = "none"
_SPECIAL = 3  # most special tokens before a text


@dataclass(frozen=True)
class Token:
    """A token of a text: characters [start, end), and log P in nats, None for the first."""

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
    """vLLM's: an entry for each prompt token, its own first.

    The first token has no entry; it is what the others leave of the text.
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
    """The tokens of a text, in order, from a choice of the answer.

    Raises
    ------
    UserError
        The answer has no log-probabilities, or its tokens do not make up the text.
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
    """Spans of tokens that make up the text after at most three special ones.

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
    """Spans from where each token begins, for tokens that are parts of characters."""
    if not offsets or offsets[0] != 0:
        return []
    return list(zip(offsets, [*offsets[1:], max(len(text), offsets[-1])], strict=True))


CHARACTERS = 4
"""Of English text in a token, about."""
PRICED = ("read", "written")


class Unavailable:
    """Stands for the weights or tokenizer of a served model; any use raises a `UserError`."""

    def __init__(self, what: str, name: str) -> None:
        self.__dict__.update(what=what, name=name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise self._lacking

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise."""
        raise self._lacking

    @property
    def _lacking(self) -> UserError:
        return UserError(
            f"{self.name} runs on a server, which keeps its {self.what}: it can be measured, "
            "eraser=none metric=[r,fairpair]"
        )


@dataclass(frozen=True, eq=False)
class ServedModel(LanguageModel):
    """A model that another machine runs; made by `connect`.

    Attributes
    ----------
    server
        Client of the server.
    way
        How the server reports likelihoods: `echo`, `prompt` or `none`.
    n
        Continuations asked for in one request.
    price
        Of a million tokens: `read` and `written`.
    most_requests
        A run that would send more is refused; None sets no limit.
    """

    server: Server = field(default=None, repr=False)  # type: ignore[assignment]
    way: str = "echo"
    n: int = 16
    price: Mapping[str, float] | None = None
    most_requests: int | None = None

    device = torch.device("cpu")
    n_layers = 0
    context_length = sys.maxsize
    is_encoder_decoder = False
    directory = ""
    origin = None
    adds_bos = None
    """The server decides."""

    @property
    def no_activations(self) -> str:
        return f"as it runs on {self.server.url}"

    @property
    def no_likelihoods(self) -> str:
        return "as model.log_probs=none" if self.way == NONE else ""

    @property
    def no_replies(self) -> str:
        return self.no_likelihoods

    @property
    def fingerprint(self) -> str:
        return digest([self.server.url, self.name, self.way])

    def estimate(self, asked: Sequence[Asked], seed: int) -> str:
        """Requests, tokens and money for what is asked and not yet answered, in words.

        Raises a `UserError` above `most_requests`.
        """
        from countergen_edit.models.served.writing import requests_of

        every = {digest(r): r for one in asked for r in requests_of(self, one, seed)}
        new = [request for request in every.values() if not self.server.is_answered(request)]
        read = sum(tokens_in(str(request["prompt"])) for request in new)
        written = sum(int(r["max_tokens"]) * int(r.get("n", 1)) for r in new)
        words = [f"{len(new):,} requests", f"about {read:,} tokens to read"]
        words.append(f"at most {written:,} to write")
        if len(every) > len(new):
            words.insert(1, f"{len(every) - len(new):,} more are answered already")
        if self.price is not None:
            each = self.price["read"] * read + self.price["written"] * written
            words.append(f"at most about {each / 1e6:,.2f} at the given prices")
        text = f"{self.name} on {self.server.url}: {', '.join(words)}."
        if self.most_requests is not None and len(new) > self.most_requests:
            raise UserError(f"{text} That is more than model.most_requests={self.most_requests}")
        return text


def tokens_in(text: str) -> int:
    """About how many tokens a text has."""
    return math.ceil(len(text) / CHARACTERS)


def connect(
    url: str,
    served_name: str | None = None,
    *,
    log_probs: str = "echo",
    n: int = 16,
    price: Mapping[str, float] | None = None,
    most_requests: int | None = None,
    cache: Path | str = "runs/served",
    template: str = "none",
    **how: Any,
) -> ServedModel:
    """A model behind a server that speaks OpenAI's completions protocol.

    Parameters
    ----------
    url : str
        Of the API, such as http://127.0.0.1:8000/v1.
    served_name : str, optional
        The server's name of the model; None takes its only one.
    log_probs : {"echo", "prompt", "none"}
        OpenAI's `echo` with `logprobs`, vLLM's `prompt_logprobs`, or neither.
    n : int
        Continuations of a prompt asked for in one request.
    price : mapping, optional
        Of a million tokens, `read` and `written`, for the estimate.
    most_requests : int, optional
        A run that would send more is refused, with its estimate.
    cache : path
        Folder of kept answers.
    template : str
        As in `load`, without `chat`.
    **how
        key_variable, parallel, per_minute, timeout and attempts of `Server`.

    Raises
    ------
    UserError
        A setting is out of range, or the server is not there or lacks the model.
    """
    ways = (*READERS, NONE)
    if log_probs not in ways:
        raise unknown("model.log_probs", log_probs, ways)
    if template not in TEMPLATES:
        raise unknown("template", template, TEMPLATES)
    if template == CHAT:
        raise UserError(
            f"template=chat, but {url} continues texts and has no chat template to put them in: "
            "use template=none"
        )
    for key, value, least in (("n", n, 1), ("most_requests", most_requests, 0)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise UserError(f"model.{key}={value!r} is not a whole number")
        if value is not None and value < least:
            raise UserError(f"model.{key}={value}: at least {least}")
    if price is not None and (
        set(price) != set(PRICED) or not all(isinstance(p, int | float) for p in price.values())
    ):
        raise UserError(
            f"model.price={price}: of a million tokens, such as {{read: 2, written: 2}}"
        )
    server = Server(url, cache=Path(cache), **how)
    names = server.models()
    if served_name is None:
        if names is None or len(names) != 1:
            what = "does not say which models it has" if names is None else f"has {names}"
            raise UserError(f"{server.url} {what}: name one, model.served_name=NAME")
        [served_name] = names
    if names and served_name not in names:
        raise unknown(f"model of {server.url}", served_name, names)
    return ServedModel(
        str(served_name),
        Unavailable("weights", served_name),
        Unavailable("tokenizer", served_name),
        server=server,
        way=log_probs,
        n=n,
        price=price,
        most_requests=most_requests,
    )


def scoring_request(lm: ServedModel, text: str) -> Request:
    """The request for a text's own log-probabilities."""
    asks, _ = READERS[lm.way]
    return {"model": lm.name, "prompt": text, "max_tokens": 1, "temperature": 0.0, **asks}
