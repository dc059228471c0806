"""Models behind a server of OpenAI's completions protocol: measured, never edited.

Greedy texts agree with those of the same model run locally; samples are the server's own.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise, product
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
import torch

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.writing import digest, whole
from countergen_edit.models.contrastive import check_contrasts
from countergen_edit.models.generation import Sampling, row_seeds, sample_texts
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import announce, track
from countergen_edit.models.scoring import Pairs, TextScores, score_pairs
from countergen_edit.models.tokens import (
    BOTH,
    CHAT,
    CHAT_MODES,
    NONE,
    check_texts,
    excerpt,
    lengths,
    opens_texts,
)

_T = TypeVar("_T")
Body = Mapping[str, Any]
API_KEY = "OPENAI_API_KEY"
"""Environment variable of the key, which is stored nowhere."""
TIMEOUT = 60.0
"""Longest wait for an answer, in seconds."""
SILENCE = 5.0
"""Seconds without an answer after which a wait is announced."""
AGAIN = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same request may succeed."""
LONGEST_WAIT = 600.0
"""Longest Retry-After that is respected, in seconds."""
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError)
"""Errors of an answer outside the protocol; a repetition may succeed."""
_MESSAGE = 300  # characters of a server's own error message that are shown
CHARACTERS = 4
"""Characters of English text in a token, about."""
LOG_PROBS = (ECHO, SILENT) = ("echo", "none")
_SEEDS = 2**31  # in the range of every server
_SPECIAL = 3  # most special tokens before a text
TokenScore = tuple[int, float | None]
"""The character at which a token ends, and its log P in nats or None."""


class Unavailable:
    """Placeholder of weights or tokenizer; `UserError` at any use."""

    def __init__(self, what: str, name: str) -> None:
        self.__dict__.update(what=what, name=name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise UserError(
            f"{self.name} runs on a server, which keeps its {self.what}: it can be measured, "
            "eraser=none metric=[r,fairpair]"
        )

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self.anything


@dataclass(frozen=True, eq=False)
class ServedModel(LanguageModel):
    """A model on another machine, made by `connect`; `way` is one of `LOG_PROBS`."""

    server: Server = field(default=None, repr=False)  # type: ignore[assignment]
    way: str = ECHO

    device = torch.device("cpu")
    n_layers = 0
    context_length = sys.maxsize
    is_encoder_decoder = False
    directory = ""
    origin = None
    adds_bos = None
    is_quantized = False
    is_identified = False  # another model may stand behind the same address

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
    parallel: int = 8,
    attempts: int = 6,
    cache: Path | str = "runs/served",
    template: str = NONE,
) -> ServedModel:
    """A model behind a server that speaks OpenAI's completions protocol.

    Parameters
    ----------
    url : Of the API, such as http://127.0.0.1:8000/v1.
    served_name : The server's name of the model; by default its only one.
    log_probs : "echo": the server returns log-probabilities of a prompt; "none": it does not.
    parallel : Requests at a time.
    attempts : Attempts per request.
    cache : Folder that keeps every answer of the server.
    template : "none" or "auto", as a server has no chat template.

    `UserError` if a setting is out of range, or the server is not there or lacks the model.
    """
    require_known("model.log_probs", log_probs, LOG_PROBS)
    require_known("template", template, CHAT_MODES)
    if template in (CHAT, BOTH):
        raise UserError(
            f"template={template}, but {url} continues texts and has no chat template to put them "
            "in: use template=none"
        )
    for key, value in (("parallel", parallel), ("attempts", attempts)):
        if value < 1:
            raise UserError(f"model.{key}={value}: at least 1")
    server = Server(url, parallel=parallel, attempts=attempts, cache=Path(cache))
    names = server.models()
    if served_name is None:
        if len(names) != 1:
            raise UserError(f"{server.url} has {names}: name one, model.served_name=NAME")
        [served_name] = names
    require_known(f"model of {server.url}", served_name, names)
    weights, tokenizer = (Unavailable(what, served_name) for what in ("weights", "tokenizer"))
    return ServedModel(served_name, weights, tokenizer, server=server, way=log_probs)


@lengths.register(ServedModel)
def _lengths(lm: ServedModel, texts: Sequence[str]) -> list[int]:
    return [math.ceil(len(text) / CHARACTERS) for text in texts]


# A server refuses a text itself, has no template, and a first token with a likelihood is read.
check_texts.register(ServedModel, lambda lm, texts: None)
opens_texts.register(ServedModel, lambda lm: False)


@check_contrasts.register(ServedModel)
def _check_contrasts(lm: ServedModel, *texts: Any, **settings: Any) -> Any:
    raise UserError(
        f"CID compares whole next-token distributions, which no server gives, and {lm.name} runs "
        "on one: leave cid out of metric"
    )


@score_pairs.register(ServedModel)
def _score_pairs(
    lm: ServedModel, pairs: Pairs, chat: bool, every: bool, progress: str | None
) -> TextScores:
    _refuse_messages(lm, chat)
    if lm.way == SILENT:
        raise UserError(f"{lm.name} gives no likelihoods of texts, {lm.no_likelihoods}")
    for prompt, text in pairs:
        if not text:
            raise UserError(f"empty continuation {text!r} after {excerpt(prompt)}")
    # One token is written too: some servers take 0 for as many as there is room for.
    how = {"model": lm.name, "max_tokens": 1, "temperature": 0.0, "echo": True, "logprobs": 1}
    answers = lm.server.answers(
        [how | {"prompt": prompt + text} for prompt, text in pairs],
        lambda reply, request: token_scores(reply["choices"][0], request["prompt"], lm.name),
        progress,
    )
    sums, counts = np.zeros(len(pairs)), np.zeros(len(pairs), dtype=np.int64)
    for i, ((prompt, text), tokens) in enumerate(zip(pairs, answers, strict=True)):
        values = [value for end, value in tokens if end > len(prompt)]
        scores = [value for value in values if value is not None]
        if not scores or (every and len(scores) < len(values)):
            start = excerpt(prompt + text)
            raise UserError(f"nothing precedes the first token of {start}: give a longer prompt")
        sums[i], counts[i] = np.sum(scores), len(scores)
    return TextScores(sums, counts)


def token_scores(choice: Mapping[str, Any], text: str, name: str) -> list[TokenScore]:
    """The tokens of a text, in order, from an echoing choice of the answer.

    They make up the text after at most three special ones; a SentencePiece tokenizer may show a
    space before the first word. `UserError` if they do not, or have no log-probabilities.
    """
    content = choice.get("logprobs") or {}
    if not content.get("tokens"):
        raise UserError(
            f"{name} is served without log-probabilities of a prompt (no 'logprobs' in the "
            "answer): measure what it writes, metric=[fairpair]"
        )
    for first, space in product(range(_SPECIAL), ("", " ")):
        tokens, values = (content[key][first:] for key in ("tokens", "token_logprobs"))
        if "".join(tokens).startswith(space + text):
            spans = pairwise(accumulate(map(len, tokens), initial=-len(space)))
            scores = zip(spans, values, strict=True)
            return [(end, value) for (start, end), value in scores if start < len(text)]
    raise UserError(
        f"the tokens that {name} is served with do not make up the text {excerpt(text)}: its "
        "likelihood cannot be read off them"
    )


def _refuse_messages(lm: ServedModel, chat: bool) -> None:
    if chat:
        raise UserError(f"{lm.name} on {lm.server.url} continues texts and is sent no messages")


@sample_texts.register(ServedModel)
def _write(
    lm: ServedModel,
    prompts: Sequence[str],
    chat: bool,
    sampling: Sampling,
    batch_size: int,
    progress: str | None,
) -> list[str]:
    """Continuations, a request each; equal greedy ones are sent once."""
    _refuse_messages(lm, chat)
    if "" in prompts:
        raise UserError("empty prompt: a server needs words to start from")
    how: dict[str, Any] = {"model": lm.name, "max_tokens": sampling.max_new_tokens}
    how["temperature"] = sampling.temperature if sampling.do_sample else 0.0
    requests = [how | {"prompt": prompt} for prompt in prompts]
    if sampling.do_sample:
        for request, seed in zip(requests, row_seeds(sampling.seed, prompts), strict=True):
            request |= {"top_p": sampling.top_p, "seed": seed % _SEEDS}
    return lm.server.answers(requests, lambda reply, _: str(reply["choices"][0]["text"]), progress)


class Server:
    """A server of OpenAI's completions protocol; its arguments are those of `connect`.

    `UserError` for an address that may hold a secret, or absent client libraries.
    """

    def __init__(self, url: str, *, parallel: int = 8, attempts: int = 6, cache: Path) -> None:
        self.url = checked_url(url)
        try:
            import httpx
            import tenacity  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"a served model needs {error.name}: pip install 'countergen-edit[served]'"
            ) from error
        self._client = httpx.Client(timeout=TIMEOUT, limits=httpx.Limits(max_connections=parallel))
        self.parallel = parallel
        self.attempts = attempts
        # By address: another server may call another model by the same name.
        self._folder = cache / digest(self.url)[:16]

    def models(self) -> list[str]:
        return self._send("models", None, lambda reply: [str(m["id"]) for m in reply["data"]])[1]

    def answers(
        self, requests: Sequence[Body], read: Callable[[Any, Body], _T], progress: str | None
    ) -> list[_T]:
        """`read(answer, request)` of each request; equal requests are sent once.

        An answer that `read` fails on is not kept; the request is repeated unless that is a
        `UserError`. All others are kept, also when one request fails.
        """
        distinct = {digest(request): request for request in requests}
        pool = ThreadPoolExecutor(self.parallel)
        try:
            futures = {k: pool.submit(self._answer, k, r, read) for k, r in distinct.items()}
            done = as_completed(futures.values())
            for _, future in zip(track(range(len(futures)), progress), done, strict=True):
                future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return [futures[digest(request)].result() for request in requests]

    def _answer(self, key: str, request: Body, read: Callable[[Any, Body], _T]) -> _T:
        file = self._folder / f"{key}.json"
        if file.is_file():
            return read(json.loads(file.read_text("utf-8")), request)
        reply, value = self._send("completions", request, lambda reply: read(reply, request))
        with whole(file) as temporary:
            temporary.write_text(json.dumps(reply, ensure_ascii=False), "utf-8")
        return value

    def _send(self, path: str, request: Body | None, read: Callable[[Any], _T]) -> tuple[Any, _T]:
        """The answer and its `read` value, with retries."""
        import httpx
        from tenacity import Retrying, retry_if_exception, stop_after_attempt

        method, attempts = ("POST", self.attempts) if request else ("GET", 2)

        def attempt() -> tuple[Any, _T]:
            key = os.environ.get(API_KEY)
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            url = f"{self.url}/{path}"
            timer = Timer(SILENCE, say_once, [self.url, attempts])
            timer.start()
            try:
                response = self._client.request(method, url, json=request, headers=headers)
            finally:
                timer.cancel()
            if response.status_code < 500 and "html" in response.headers.get("content-type", ""):
                raise self._failed("is a web page (the address of an API ends in /v1)")
            reply = response.raise_for_status().json()
            return reply, read(reply)

        retry = retry_if_exception(_may_pass)
        stop = stop_after_attempt(attempts)
        try:
            return Retrying(retry=retry, stop=stop, wait=_pause, reraise=True)(attempt)
        except UserError:
            raise
        except (httpx.HTTPError, httpx.InvalidURL, *MALFORMED) as error:
            kind = type(error).__name__
            if isinstance(error, httpx.HTTPStatusError):
                why = f"answers {error.response.status_code} ({_message(error.response)})"
            elif isinstance(error, MALFORMED):
                why = f"answers what is not a completion ({_line(f'{kind} {error}')})"
            else:
                why = f"cannot be reached ({kind})"
            raise self._failed(why) from error

    def _failed(self, what: str) -> UserError:
        return UserError(
            f"the server {self.url} {what}: see that it runs, knows the model and takes the key in "
            f"${API_KEY}; what was answered is kept, and the same command continues"
        )


@cache
def say_once(url: str, attempts: int) -> None:
    """Say that an answer is waited for, and for how long."""
    text = f"no answer from {url} for {SILENCE:g} s: waiting up to {TIMEOUT:g} s"
    announce(f"countergen-edit: {text} in each of {attempts} attempts")


def _line(text: str) -> str:
    return " ".join(text.split())


def _message(response: Any) -> str:
    """The server's own error message, without the key."""
    try:
        message = response.json()["error"]["message"]
    except MALFORMED:
        message = response.text
    text = _line(str(message))[:_MESSAGE]
    key = os.environ.get(API_KEY)
    return text.replace(key, "***") if key else text


def _may_pass(error: BaseException) -> bool:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in AGAIN
    passing = (httpx.TransportError, *MALFORMED)
    return isinstance(error, passing) and not isinstance(error, UserError)


def _pause(state: Any) -> float:
    """Seconds before another attempt: the server's Retry-After, or growing ones."""
    from tenacity import wait_random_exponential

    with suppress(AttributeError, KeyError, ValueError):
        seconds = float(state.outcome.exception().response.headers["Retry-After"])
        return min(max(seconds, 0.0), LONGEST_WAIT)
    return wait_random_exponential(0.2, max=20)(state)


def checked_url(url: str) -> str:
    """The address without its last slash; `UserError` if it is not HTTP or may hold a secret.

    >>> checked_url("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000/v1'
    """
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError(
            f"the address of {parts.hostname} has more than a host and a path: a key belongs in "
            f"the environment, in ${API_KEY}"
        )
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UserError(f"{url!r} is not an address: write one such as http://127.0.0.1:8000/v1")
    return url.rstrip("/")
