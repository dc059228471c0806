"""Models behind a server of OpenAI's completions protocol: measured, never edited.

Greedy texts agree with those of the same model run locally; samples are the server's own.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64

from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.seeds import unit_seed
from countergen_edit.core.writing import digest
from countergen_edit.models.contrastive import check_contrasts
from countergen_edit.models.generation import Sampling, write
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.scoring import (
    TextScores,
    check_continuations,
    continuation_log_probs,
    text_log_probs,
)
from countergen_edit.models.server import MalformedReplyError, Request, Server
from countergen_edit.models.tokens import (
    CHAT,
    NONE,
    TEMPLATES,
    excerpt,
    instructed,
    lengths,
    opens_texts,
)

CHARACTERS = 4
"""Characters of English text in a token, about."""
LOG_PROBS = (ECHO, SILENT) = ("echo", "none")
_SEEDS = 2**31  # in the range of every server
_SPECIAL = 3  # most special tokens before a text


class Token(NamedTuple):
    """A token of a text: characters [start, end), and log P in nats, None for the first."""

    start: int
    end: int
    log_p: float | None


def tokens_of(choice: Mapping[str, Any], text: str, name: str) -> list[Token]:
    """The tokens of a text, in order, from an echoing choice of the answer.

    Raises
    ------
    UserError
        The answer has no log-probabilities, or its tokens do not make up the text.
    """
    content = choice.get("logprobs") or {}
    if not content.get("tokens"):
        raise UserError(
            f"{name} is served without log-probabilities of a prompt (no 'logprobs' in the "
            "answer): measure what it writes, metric=[fairpair]"
        )
    spans = _by_pieces(content["tokens"], text)
    spans = spans or _by_offsets(content.get("text_offset") or [], text)
    tokens = [
        Token(start, min(end, len(text)), None if value is None else float(value))
        for (start, end), value in zip(spans, content["token_logprobs"], strict=False)
        if 0 <= start < len(text)
    ]
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
    """Spans by the beginning of each token, for tokens that are parts of characters."""
    if not offsets or offsets[0] != 0:
        return []
    return list(zip(offsets, [*offsets[1:], max(len(text), offsets[-1])], strict=True))


class Unavailable:
    """Placeholder of the weights or tokenizer of a served model; any use raises a `UserError`."""

    def __init__(self, what: str, name: str) -> None:
        self.__dict__.update(what=what, name=name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return self(attribute)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise."""
        raise UserError(
            f"{self.name} runs on a server, which keeps its {self.what}: it can be measured, "
            "eraser=none metric=[r,fairpair]"
        )


@dataclass(frozen=True, eq=False)
class ServedModel(LanguageModel):
    """A model that another machine runs; made by `connect`.

    `way` is the protocol of likelihoods, `echo` or `none`; `n` continuations come in one request.
    """

    server: Server = field(default=None, repr=False)  # type: ignore[assignment]
    way: str = ECHO
    n: int = 16

    device = torch.device("cpu")
    n_layers = 0
    context_length = sys.maxsize
    is_encoder_decoder = False
    directory = ""
    origin = None
    adds_bos = None

    @property
    def no_activations(self) -> str:
        return f"as it runs on {self.server.url}"

    @property
    def no_likelihoods(self) -> str:
        return "as model.log_probs=none" if self.way == SILENT else ""

    @property
    def fingerprint(self) -> str:
        return digest([self.server.url, self.name, self.way])


def connect(
    url: str,
    served_name: str | None = None,
    *,
    log_probs: str = ECHO,
    n: int = 16,
    parallel: int = 8,
    attempts: int = 6,
    cache: Path | str = "runs/served",
    template: str = NONE,
) -> ServedModel:
    """A model behind a server that speaks OpenAI's completions protocol.

    Parameters
    ----------
    url : str
        Of the API, such as http://127.0.0.1:8000/v1.
    served_name : str, optional
        The server's name of the model; None takes its only one.
    log_probs : {"echo", "none"}
        Whether the server echoes the log-probabilities of a prompt.
    n : int
        Continuations of a prompt in one request.
    parallel, attempts, cache
        As in `Server`.
    template : {"none", "auto"}
        As in `load`; a server has no chat template.

    Raises
    ------
    UserError
        A setting is out of range, or the server is not there or lacks the model.
    """
    if log_probs not in LOG_PROBS:
        raise unknown("model.log_probs", log_probs, LOG_PROBS)
    if template not in TEMPLATES:
        raise unknown("template", template, TEMPLATES)
    if template == CHAT:
        raise UserError(
            f"template=chat, but {url} continues texts and has no chat template to put them in: "
            "use template=none"
        )
    for key, value in (("n", n), ("parallel", parallel), ("attempts", attempts)):
        if value < 1:
            raise UserError(f"model.{key}={value}: at least 1")
    server = Server(url, parallel=parallel, attempts=attempts, cache=Path(cache))
    names = server.models()
    if served_name is None:
        if len(names) != 1:
            raise UserError(f"{server.url} has {names}: name one, model.served_name=NAME")
        [served_name] = names
    if served_name not in names:
        raise unknown(f"model of {server.url}", served_name, names)
    unavailable = (Unavailable(what, served_name) for what in ("weights", "tokenizer"))
    return ServedModel(served_name, *unavailable, server=server, way=log_probs, n=n)


@lengths.register(ServedModel)
def _lengths(lm: ServedModel, texts: Sequence[str]) -> list[int]:
    return [math.ceil(len(text) / CHARACTERS) for text in texts]


@opens_texts.register(ServedModel)
def _opens_texts(lm: ServedModel) -> bool:
    return False  # unknown here: a first token that has a likelihood is read


@instructed.register(ServedModel)
def _instructed(lm: ServedModel, message: str) -> str:
    return message


@continuation_log_probs.register(ServedModel)
def _continuation_log_probs(
    lm: ServedModel,
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    progress: str | None = None,
) -> Float64[np.ndarray, " row"]:
    values = []
    for text, own in _tokens_after(lm, prompts, continuations, progress):
        known = [value for value in own if value is not None]
        if len(known) < len(own):
            raise UserError(
                f"nothing precedes the first token of {excerpt(text)}: give a longer prompt"
            )
        values.append(float(np.sum(known)))
    return np.array(values, dtype=np.float64)


@text_log_probs.register(ServedModel)
def _text_log_probs(
    lm: ServedModel,
    prompts: Sequence[str],
    texts: Sequence[str],
    *,
    chat: bool = False,
    progress: str | None = None,
) -> TextScores:
    _refuse_messages(lm, chat)
    sums, counts = [], []
    for text, own in _tokens_after(lm, prompts, texts, progress):
        known = [value for value in own if value is not None]
        if not known:
            raise UserError(f"no token of {excerpt(text)} has another before it in {lm.name}")
        sums.append(float(np.sum(known)))
        counts.append(len(known))
    return TextScores(np.array(sums, dtype=np.float64), np.array(counts, dtype=np.int64))


def _tokens_after(
    lm: ServedModel, prompts: Sequence[str], continuations: Sequence[str], progress: str | None
) -> list[tuple[str, list[float | None]]]:
    """Each whole text, with the log-probabilities of its continuation's tokens."""
    check_continuations(prompts, continuations)
    if lm.way == SILENT:
        raise UserError(f"{lm.name} gives no likelihoods of texts, {lm.no_likelihoods}")
    for prompt, continuation in zip(prompts, continuations, strict=True):
        if not continuation:
            raise UserError(f"empty continuation {continuation!r} after {excerpt(prompt)}")

    def read(reply: Any, request: Request) -> list[Token]:
        return tokens_of(_choices(reply)[0], str(request["prompt"]), lm.name)

    texts = [p + c for p, c in zip(prompts, continuations, strict=True)]
    # One token is written too: some servers take 0 for as many as there is room for.
    how = {"max_tokens": 1, "temperature": 0.0, "echo": True, "logprobs": 1}
    requests = [{"model": lm.name, "prompt": text, **how} for text in texts]
    answers = lm.server.answers(requests, read, progress)
    return [
        (text, [token.log_p for token in tokens if token.end > len(prompt)])
        for prompt, text, tokens in zip(prompts, texts, answers, strict=True)
    ]


def _refuse_messages(lm: ServedModel, chat: bool) -> None:
    if chat:
        raise UserError(f"{lm.name} on {lm.server.url} continues texts and is sent no messages")


@write.register(ServedModel)
def _write(
    lm: ServedModel,
    prompts: Sequence[str],
    chat: bool,
    sampling: Sampling,
    batch_size: int,
    progress: str | None,
) -> list[str]:
    _refuse_messages(lm, chat)
    parts = _parts(lm, prompts, sampling)
    answers = lm.server.answers([request for request, _ in parts], _continued, progress)
    texts = [""] * len(prompts)
    for (_, places), choices in zip(parts, answers, strict=True):
        own = choices if sampling.do_sample else choices[:1] * len(places)
        for place, choice in zip(places, own, strict=False):
            texts[place] = str(choice["text"])
    return texts


@check_contrasts.register(ServedModel)
def _check_contrasts(lm: ServedModel, *texts: Any, **settings: Any) -> Any:
    raise UserError(
        f"CID compares whole next-token distributions, which no server gives, and {lm.name} runs "
        "on one: leave cid out of metric"
    )


def _parts(
    lm: ServedModel, prompts: Sequence[str], sampling: Sampling
) -> list[tuple[Request, list[int]]]:
    """Requests for continuations, each with the indices of its prompts; greedy ones are sent once.

    The k-th sample of a prompt comes from the same request whatever other prompts there are.
    """
    base: dict[str, Any] = {"model": lm.name, "max_tokens": sampling.max_new_tokens}
    drawn = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    places = defaultdict(list)
    for i, prompt in enumerate(prompts):
        places[prompt].append(i)
    parts: list[tuple[Request, list[int]]] = []
    for prompt, own in places.items():
        if not prompt:
            raise UserError("empty prompt: a server needs words to start from")
        if not sampling.do_sample:
            parts.append((base | {"prompt": prompt, "temperature": 0.0}, own))
            continue
        for first in range(0, len(own), lm.n):
            some = own[first : first + lm.n]
            seed = unit_seed(sampling.seed, "generate", prompt, first) % _SEEDS
            parts.append((base | drawn | {"prompt": prompt, "n": len(some), "seed": seed}, some))
    return parts


def _choices(reply: Any) -> list[Mapping[str, Any]]:
    """The choices of an answer, in order; `MalformedReplyError` if there are none."""
    choices = sorted(reply["choices"], key=lambda choice: int(choice.get("index", 0)))
    if not choices:
        raise MalformedReplyError("no choices")
    return choices


def _continued(reply: Any, request: Request) -> list[Mapping[str, Any]]:
    """The choices of an answer with text, at least as many as the request has."""
    choices = _choices(reply)
    if not all(isinstance(choice["text"], str) for choice in choices):
        raise MalformedReplyError("a choice without text")
    if len(choices) < int(request.get("n", 1)):
        raise UserError(
            f"the server gave {len(choices)} of {request['n']} continuations in one answer: ask "
            "for one at a time, model.n=1"
        )
    return choices
