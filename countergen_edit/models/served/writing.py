"""How a served model scores and writes.

Greedy texts agree with those of the same model run locally; samples are the server's own. CID has
λ = 0 alone (greedy decoding), with an unknown divergence (NaN).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import unit_seed
from countergen_edit.models.contrastive import (
    SENTENCE_ENDS,
    TOP_K,
    Contrasted,
    check_contrasts,
    contrastive_generate,
)
from countergen_edit.models.generation import check_sampling, generate
from countergen_edit.models.language_model import Asked
from countergen_edit.models.scoring import (
    TextScores,
    check_continuations,
    continuation_log_probs,
    text_log_probs,
)
from countergen_edit.models.served.model import (
    NONE,
    ServedModel,
    scoring_request,
    tokens_in,
    tokens_of,
)
from countergen_edit.models.served.server import MalformedReplyError, Request
from countergen_edit.models.tokens import excerpt, instructed, lengths, opens_texts

_SEEDS = 2**31  # what every server takes


@lengths.register(ServedModel)
def _lengths(lm: ServedModel, texts: Sequence[str]) -> list[int]:
    return [tokens_in(text) for text in texts]


@opens_texts.register(ServedModel)
def _opens_texts(lm: ServedModel) -> bool:
    return False  # the server knows: a first token that has a likelihood is read


@continuation_log_probs.register(ServedModel)
def _continuation_log_probs(
    lm: ServedModel,
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    max_batch_tokens: int | None = None,
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
    asked: bool = False,
    max_batch_tokens: int | None = None,
    progress: str | None = None,
) -> TextScores:
    _refuse_messages(lm, asked)
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
    if lm.way == NONE:
        raise UserError(f"{lm.name} gives no likelihoods of texts, {lm.no_likelihoods}")
    for prompt, continuation in zip(prompts, continuations, strict=True):
        if not continuation:
            raise UserError(f"empty continuation {continuation!r} after {excerpt(prompt)}")

    def read(reply: Any, request: Request) -> Any:
        return tokens_of(lm.way, _choices(reply)[0], str(request["prompt"]), lm.name)

    texts = [p + c for p, c in zip(prompts, continuations, strict=True)]
    answers = lm.server.answers([scoring_request(lm, text) for text in texts], read, progress)
    return [
        (text, [token.log_p for token in tokens if token.end > len(prompt)])
        for prompt, text, tokens in zip(prompts, texts, answers, strict=True)
    ]


def _refuse_messages(lm: ServedModel, asked: bool) -> None:
    if asked:
        raise UserError(f"{lm.name} on {lm.server.url} continues texts and is sent no messages")


@instructed.register(ServedModel)
def _instructed(lm: ServedModel, message: str) -> str:
    return message


@generate.register(ServedModel)
def _generate(
    lm: ServedModel,
    prompts: Sequence[str],
    *,
    asked: bool = False,
    max_new_tokens: int,
    do_sample: bool = False,
    top_p: float = 1.0,
    temperature: float = 1.0,
    seed: int = 0,
    batch_size: int = 64,
    progress: str | None = None,
) -> list[str]:
    _refuse_messages(lm, asked)
    check_sampling(max_new_tokens, batch_size, do_sample, top_p, temperature)
    plan = Asked(
        continued=tuple(prompts),
        max_new_tokens=max_new_tokens,
        do_sample=do_sample,
        top_p=top_p,
        temperature=temperature,
    )
    parts = _parts(lm, plan, seed)
    answers = lm.server.answers([request for request, _ in parts], _written, progress)
    texts = [""] * len(prompts)
    for (_, places), choices in zip(parts, answers, strict=True):
        for place, choice in zip(places, _as_many(choices, places), strict=True):
            texts[place] = str(choice["text"])
    return texts


@contrastive_generate.register(ServedModel)
def _contrastive_generate(
    lm: ServedModel,
    prompts: Sequence[str],
    contrasts: Sequence[str],
    strength: float | Sequence[float],
    *,
    max_new_tokens: int,
    top_k: int = TOP_K,
    sentence: bool = False,
    progress: str | None = None,
    **how: Any,
) -> list[Contrasted]:
    strengths = [strength] * len(prompts) if isinstance(strength, int | float) else strength
    check_contrasts(lm, prompts, contrasts, strengths, max_new_tokens=max_new_tokens, top_k=top_k)
    asked = Asked(continued=tuple(prompts), max_new_tokens=max_new_tokens, sentence=sentence)
    parts = _parts(lm, asked, 0)
    answers = lm.server.answers([request for request, _ in parts], _written, progress)
    results: dict[int, Contrasted] = {}
    for (_, places), choices in zip(parts, answers, strict=True):
        text = _first_sentence(choices[0]) if sentence else str(choices[0]["text"])
        for place in places:
            results[place] = Contrasted(text, (), (), (float("nan"),))
    return [results[i] for i in range(len(prompts))]


@check_contrasts.register(ServedModel)
def _check_contrasts(
    lm: ServedModel,
    prompts: Sequence[str],
    contrasts: Sequence[str],
    strengths: Sequence[float],
    *,
    max_new_tokens: int,
    top_k: int = TOP_K,
) -> tuple[list[list[int]], list[list[int]]]:
    above = next((value for value in strengths if value != 0), None)
    if above is not None:
        raise UserError(
            f"lambda={above:g} compares whole next-token distributions, which no server gives, and "
            f"{lm.name} runs on one: lambda=0 alone, metric.cid.strengths=[0]"
        )
    for prompt, contrast in zip(prompts, contrasts, strict=True):
        if prompt == contrast:
            raise UserError(
                f"the prompt equals its contrast, {excerpt(prompt)}: there is nothing to contrast"
            )
    return [], []


def requests_of(lm: ServedModel, asked: Asked, seed: int) -> list[Request]:
    """The requests for what is asked, answered ones included."""
    scored = [scoring_request(lm, prompt + text) for prompt, text in asked.scored]
    return [*scored, *(request for request, _ in _parts(lm, asked, seed))]


def _parts(lm: ServedModel, asked: Asked, seed: int) -> list[tuple[Request, list[int]]]:
    """Requests for continuations, each with the indices of its prompts; greedy ones are sent once.

    The k-th sample of a prompt comes from the same request whatever other prompts there are.
    """
    base = {"model": lm.name, "max_tokens": asked.max_new_tokens}
    if asked.sentence and lm.way != NONE:
        base["logprobs"] = 1  # shows where the tokens end
    places = defaultdict(list)
    for i, prompt in enumerate(asked.continued):
        places[prompt].append(i)
    parts: list[tuple[Request, list[int]]] = []
    for prompt, own in places.items():
        if not prompt:
            raise UserError("empty prompt: a server needs words to start from")
        if not asked.do_sample:
            parts.append((base | {"prompt": prompt, "temperature": 0.0}, own))
            continue
        for first in range(0, len(own), lm.n):
            some = own[first : first + lm.n]
            how = {"temperature": asked.temperature, "top_p": asked.top_p, "n": len(some)}
            how["seed"] = unit_seed(seed, "generate", prompt, first) % _SEEDS
            parts.append((base | {"prompt": prompt, **how}, some))
    return parts


def _choices(reply: Any) -> list[Mapping[str, Any]]:
    """The choices of an answer, in order; `MalformedReplyError` if there are none."""
    choices = sorted(reply["choices"], key=lambda choice: int(choice.get("index", 0)))
    if not choices:
        raise MalformedReplyError("no choices")
    return choices


def _written(reply: Any, request: Request) -> list[Mapping[str, Any]]:
    """The choices of an answer, one or as many as were asked for.

    Raises `MalformedReplyError` for one without text, `UserError` for too few.
    """
    choices = _choices(reply)
    for choice in choices:
        if not isinstance(choice["text"], str):
            raise MalformedReplyError("a choice without text")
    if len(choices) < int(request.get("n", 1)):
        raise UserError(
            f"the server gave {len(choices)} of {request['n']} continuations in one answer: ask "
            "for one at a time, model.n=1"
        )
    return choices


def _as_many(choices: list[Mapping[str, Any]], places: Sequence[int]) -> list[Mapping[str, Any]]:
    """A choice for each place; the only one for all where text is greedy."""
    return choices[: len(places)] if len(choices) >= len(places) else choices[:1] * len(places)


def _first_sentence(choice: Mapping[str, Any]) -> str:
    """The text up to the first token, or character, that ends a sentence."""
    text = str(choice["text"])
    tokens = (choice.get("logprobs") or {}).get("tokens") or list(text)
    if not "".join(tokens).startswith(text):
        tokens = list(text)
    end = 0
    for token in tokens:
        end += len(token)
        if set(token) & set(SENTENCE_ENDS):
            break
    return text[:end]
