"""Models behind a server of OpenAI's completions protocol: measured, never edited.

Greedy texts agree with those of the same model run locally; samples are the server's own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from countergen_edit.core.errors import UserError, require_known
from countergen_edit.core.writing import digest
from countergen_edit.models.contrastive import check_contrasts
from countergen_edit.models.generation import Sampling, row_seeds, sample_texts
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.scoring import (
    TextScores,
    check_continuations,
    continuation_log_probs,
    text_log_probs,
)
from countergen_edit.models.server import Server
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

CHARACTERS = 4
"""Characters of English text in a token, about."""
LOG_PROBS = (ECHO, SILENT) = ("echo", "none")
_SEEDS = 2**31  # in the range of every server
_SPECIAL = 3  # most special tokens before a text
TokenScore = tuple[int, float | None]
"""The character at which a token of a text ends, and its log P in nats, None for the first."""


class Unavailable:
    """Placeholder of the weights or tokenizer of a served model; any use raises a `UserError`."""

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
    """A model that another machine runs; made by `connect`.

    `way` is the protocol of likelihoods, `echo` or `none`.
    """

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

    @property
    def no_activations(self) -> str:
        return f"as it runs on {self.server.url}"

    @property
    def no_likelihoods(self) -> str:
        return "as model.log_probs=none" if self.way == SILENT else ""

    @property
    def fingerprint(self) -> str:
        return digest([self.server.url, self.name, self.way])

    @property
    def is_identified(self) -> bool:
        return False  # another model may stand behind the same address


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
    url : str
        Of the API, such as http://127.0.0.1:8000/v1.
    served_name : str, optional
        The server's name of the model; by default its only one.
    log_probs : str
        "echo": the server returns log-probabilities of a prompt; "none": it does not.
    parallel : int
        Requests at a time.
    attempts : int
        Attempts per request.
    cache : path
        Folder that keeps every answer of the server.
    template : str
        "none" or "auto", as a server has no chat template.

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


@continuation_log_probs.register(ServedModel)
def _continuation_log_probs(
    lm: ServedModel,
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    progress: str | None = None,
) -> Float64[np.ndarray, " row"]:
    values = _values_after(lm, prompts, continuations, progress)
    for prompt, continuation, scores in zip(prompts, continuations, values, strict=True):
        if None in scores:
            text = excerpt(prompt + continuation)
            raise UserError(f"nothing precedes the first token of {text}: give a longer prompt")
    return np.array([np.array(scores, dtype=np.float64).sum() for scores in values])


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
    sums, counts = np.zeros(len(texts)), np.zeros(len(texts), dtype=np.int64)
    for i, scores in enumerate(_values_after(lm, prompts, texts, progress)):
        known = [value for value in scores if value is not None]
        if not known:
            whole = excerpt(prompts[i] + texts[i])
            raise UserError(f"no token of {whole} has another before it in {lm.name}")
        sums[i], counts[i] = np.sum(known), len(known)
    return TextScores(sums, counts)


def _values_after(
    lm: ServedModel, prompts: Sequence[str], continuations: Sequence[str], progress: str | None
) -> list[list[float | None]]:
    """Log-probabilities of the tokens of each continuation."""
    check_continuations(prompts, continuations)
    if lm.way == SILENT:
        raise UserError(f"{lm.name} gives no likelihoods of texts, {lm.no_likelihoods}")
    for prompt, continuation in zip(prompts, continuations, strict=True):
        if not continuation:
            raise UserError(f"empty continuation {continuation!r} after {excerpt(prompt)}")
    # One token is written too: some servers take 0 for as many as there is room for.
    how = {"model": lm.name, "max_tokens": 1, "temperature": 0.0, "echo": True, "logprobs": 1}
    answers = lm.server.answers(
        [how | {"prompt": p + c} for p, c in zip(prompts, continuations, strict=True)],
        lambda reply, asked: token_scores(reply["choices"][0], asked["prompt"], lm.name),
        progress,
    )
    return [
        [value for end, value in tokens if end > len(prompt)]
        for prompt, tokens in zip(prompts, answers, strict=True)
    ]


def token_scores(choice: Mapping[str, Any], text: str, name: str) -> list[TokenScore]:
    """The tokens of a text, in order, from an echoing choice of the answer.

    They make up the text after at most three special ones; a SentencePiece tokenizer may show a
    space before the first word that is not in the text.

    `UserError` if the answer has no log-probabilities, or its tokens do not make up the text.
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
