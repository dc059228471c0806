"""Contrastive input decoding (CID): text that is likely after one prompt and unlikely after another.

    p̃(w) ∝ exp(λ Δ(w)) p(w | x, y),   Δ(w) = p(w | x, y) - p(w | x', y)

where y is what has been generated so far, which extends both x and x', and w is among the K
likeliest tokens after x (Yona et al. 2023, equation 1 and appendix B). Δ compares the whole
distributions, before the K are chosen. λ = 0 is ordinary decoding.

In: prompts, their contrasts and a λ for each. Out: continuations, each token with its Δ and with
the Jensen–Shannon divergence of the two distributions it was chosen from.
Refused: a prompt that equals its contrast, a negative λ, a K that the vocabulary cannot hold.

Both contexts run as one batch, [x rows; x' rows], of Hugging Face's own `generate`. A logits
processor gives row i of either half the same scores, so both halves choose the same token, and
cache, stopping and beams are those of `generate`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from countergen_edit.errors import UserError
from countergen_edit.models.generation import (
    _ends,
    _generation_config,
    _plain_defaults,
    _text_after,
)
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import track
from countergen_edit.models.scoring import widen
from countergen_edit.models.tokens import encode, excerpt
from countergen_edit.seeds import generator

TOP_K = 50
"""What the paper uses throughout."""
SENTENCE_ENDS = ".!?\n"


@dataclass(frozen=True)
class Contrasted:
    """A continuation and how far apart its two contexts were on the way.

    Attributes:
        text: What follows the prompt, without special tokens.
        tokens: Its token ids, with the end token where there is one.
        pieces: The text of each token, in the order of `tokens`.
        delta: Of each token, its probability after x minus that after x', in [-1, 1].
        divergence: At each token, the Jensen–Shannon divergence of the two next-token
            distributions in nats, in [0, ln 2].
    """

    text: str
    tokens: tuple[int, ...]
    pieces: tuple[str, ...]
    delta: tuple[float, ...]
    divergence: tuple[float, ...]


def contrast(
    logits: Float[Tensor, "pair vocab"],
    contrast_logits: Float[Tensor, "pair vocab"],
    strength: Float64[Tensor, " pair"],
    top_k: int = TOP_K,
) -> tuple[
    Float64[Tensor, "pair k"], Float64[Tensor, "pair k"], Int[Tensor, "pair k"]
]:
    """log p̃, normalised, with Δ, of the K likeliest tokens after x, and which tokens they are.

    Args:
        logits: After x; anything equal to log p up to a constant a row.
        contrast_logits: After x'.
        strength: λ of each pair.
        top_k: K.
    """
    top, token = logits.topk(top_k)
    log_p = widen(top) - _log_norm(logits)
    log_q = widen(contrast_logits.gather(1, token)) - _log_norm(contrast_logits)
    delta = log_p.exp() - log_q.exp()
    return (log_p + strength[:, None] * delta).log_softmax(-1), delta, token


def jensen_shannon(
    logits: Float[Tensor, "pair vocab"], contrast_logits: Float[Tensor, "pair vocab"]
) -> Float64[Tensor, " pair"]:
    """Jensen–Shannon divergence of two next-token distributions, in nats.

    >>> p, q = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, -torch.inf]])
    >>> round(float(jensen_shannon(p, q)), 6)  # (ln 4/3 + ln 2/3 / 2 + ln 4/3 / 2) / 2
    0.215762
    """
    log_p, log_q = (widen(x).log_softmax(-1) for x in (logits, contrast_logits))
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)

    def to_middle(log: Float64[Tensor, "pair vocab"]) -> Float64[Tensor, " pair"]:
        # A token of probability 0 adds nothing, where 0 · (-inf) would add NaN.
        return torch.where(log.isneginf(), 0.0, log.exp() * (log - log_m)).sum(-1)

    return (to_middle(log_p) + to_middle(log_q)) / 2


def _log_norm(logits: Float[Tensor, "pair vocab"]) -> Float64[Tensor, "pair 1"]:
    return widen(logits).logsumexp(-1, keepdim=True)


class ContrastiveScores:
    """A logits processor for `generate` on a doubled batch, [x rows; x' rows].

    Greedy decoding and beams need nothing else: equal scores make the halves choose alike. For
    sampling, both must meet the same chance: use `contrastive_generate`.

    Args:
        strength: λ of each pair; with beams, one for each pair still.
        top_k: How many of the likeliest tokens after x may be chosen.
        trace: Keep Δ and divergence of every step, for greedy decoding and sampling.
    """

    def __init__(
        self, strength: Sequence[float] | Tensor, top_k: int = TOP_K, trace: bool = False
    ) -> None:
        self.strength = torch.as_tensor(strength, dtype=torch.float64)
        self.top_k = top_k
        self.trace = trace
        self.steps = 0
        self._delta: list[Tensor] = []
        self._token: list[Tensor] = []
        self._divergence: list[Tensor] = []

    def __call__(
        self, input_ids: Int[Tensor, "row time"], scores: Float[Tensor, "row vocab"]
    ) -> Float64[Tensor, "row vocab"]:
        check_top_k(self.top_k, scores.shape[-1])
        x, other = scores.chunk(2)
        beams = len(x) // len(self.strength)
        strength = self.strength.repeat_interleave(beams)
        log_p, delta, token = contrast(
            x, other, strength.to(x.device if x.device.type != "mps" else "cpu"), self.top_k
        )
        if self.trace:
            self._delta.append(delta)
            self._token.append(token)
            self._divergence.append(jensen_shannon(x, other))
        self.steps += 1
        half = torch.full(x.shape, -torch.inf, dtype=log_p.dtype, device=log_p.device)
        half.scatter_(1, token.to(log_p.device), log_p)
        return half.repeat(2, 1)

    def traced(
        self, new: Int[Tensor, "pair step"]
    ) -> tuple[Float64[np.ndarray, "pair step"], Float64[np.ndarray, "pair step"]]:
        """Δ of the tokens chosen, and the divergence at every step.

        Δ is NaN for a token outside the K, which only padding after an end is.
        """
        delta = np.full(new.shape, np.nan)
        for step, (values, tokens) in enumerate(zip(self._delta, self._token, strict=True)):
            row, place = torch.nonzero(
                tokens.cpu() == new[:, step, None].cpu(), as_tuple=True
            )
            delta[row.numpy(), step] = values.cpu()[row, place].numpy()
        divergence: Float64[np.ndarray, "pair step"] = (
            torch.stack(self._divergence, dim=1).cpu().numpy()
        )
        return delta, divergence


class _SharedDraw:
    """Draws one token for both halves, so that `generate` can go on as if it were greedy.

    Each pair has a generator of its own: what is drawn for it does not depend on its batch.
    """

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self.generators = generators

    def __call__(
        self, input_ids: Int[Tensor, "row time"], scores: Float64[Tensor, "row vocab"]
    ) -> Float64[Tensor, "row vocab"]:
        cumulative = scores.chunk(2)[0].softmax(-1).cumsum(-1)
        u = torch.tensor([g.random() for g in self.generators], dtype=cumulative.dtype)
        level = u.to(cumulative.device)[:, None] * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, level, right=True)
        chosen = torch.full_like(cumulative, -torch.inf).scatter_(1, drawn, 0.0)
        return chosen.repeat(2, 1)


def contrastive_tokens(
    model: Any,
    prompts: Sequence[Sequence[int]],
    contrasts: Sequence[Sequence[int]],
    processor: ContrastiveScores,
    *,
    config: Any,
    then: Sequence[Callable[..., Tensor]] = (),
) -> Int[Tensor, "pair step"]:
    """New tokens of each pair, from a plain Hugging Face model: decoder-only or encoder-decoder.

    Args:
        model: Anything with `generate`.
        prompts: Token ids of every x.
        contrasts: Token ids of every x'; lengths may differ.
        processor: A fresh one for every call.
        config: A `GenerationConfig`; `pad_token_id` must be set and `do_sample` off.
        then: Logits processors to follow, such as a temperature.
    """
    rows = [*prompts, *contrasts]
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), config.pad_token_id)
    mask = torch.zeros_like(ids)
    for k, row in enumerate(rows):
        # What is continued must end where its continuation begins; what is only read starts at 0.
        at = slice(len(row)) if model.config.is_encoder_decoder else slice(width - len(row), None)
        ids[k, at] = torch.tensor(row)
        mask[k, at] = 1
    device = model.get_input_embeddings().weight.device
    with torch.inference_mode():
        output: Tensor = model.generate(
            ids.to(device),
            attention_mask=mask.to(device),
            generation_config=config,
            logits_processor=_processors([processor, *then]),
        )
    start = 1 if model.config.is_encoder_decoder else width
    return output[: len(prompts), start:].cpu()


def contrastive_generate(
    lm: LanguageModel,
    prompts: Sequence[str],
    contrasts: Sequence[str],
    strength: float | Sequence[float],
    *,
    max_new_tokens: int,
    top_k: int = TOP_K,
    do_sample: bool = False,
    temperature: float = 1.0,
    top_p: float = 1.0,
    num_beams: int = 1,
    seed: int = 0,
    sentence: bool = False,
    trace: bool = True,
    batch_size: int = 64,
    progress: str | None = None,
) -> list[Contrasted]:
    """CID(x; x', λ) of every prompt with its contrast and its λ, batched, with the cache.

    Neither greedy nor sampled text depends on the batches.

    Args:
        lm: The model, with whatever hooks are attached to its bridge.
        prompts: What the text is to be likely after.
        contrasts: For each prompt, what it is to be unlikely after.
        strength: λ, of all or of each; several λ and both directions of a pair share batches.
        max_new_tokens: Upper limit; a text also ends at the model's end-of-text token.
        top_k: How many of the likeliest tokens after the prompt may be chosen.
        do_sample: Draw from p̃ instead of taking its likeliest token.
        temperature: Divides log p̃ when sampling.
        top_p: Sample from the smallest set of tokens that holds this much of p̃.
        num_beams: Beams of log p̃; `delta` and `divergence` are then empty.
        seed: Of the samples; equal pairs with equal λ are drawn apart.
        sentence: End at the first token that holds a full stop, `!`, `?` or a line break.
        trace: Whether Δ and divergence are wanted.
        batch_size: Pairs run together, two rows each.
        progress: Description of a progress bar.

    Raises:
        UserError: the lists differ in length, a prompt equals its contrast or is too long, λ is
            negative, K exceeds the vocabulary, or an option is out of range.
    """
    strengths = [float(strength)] * len(prompts) if isinstance(strength, (int, float)) else [
        float(s) for s in strength
    ]
    _check_options(lm, prompts, contrasts, strengths, top_k, max_new_tokens, batch_size)
    if do_sample and (not (temperature > 0 and 0 < top_p <= 1) or num_beams > 1):
        raise UserError(
            f"temperature={temperature} must be positive, top_p={top_p} in (0, 1], "
            f"num_beams={num_beams} 1 when sampling"
        )
    x, other = ([e.ids for e in encode(lm, texts)] for texts in (prompts, contrasts))
    for k, (a, b) in enumerate(zip(x, other, strict=True)):
        _check_pair(lm, prompts[k], contrasts[k], a, b, max_new_tokens)
    trace = trace and num_beams == 1
    ends = _ends(lm)
    stops = {*ends, *(sentence_ends(lm) if sentence else ())}
    config = _generation_config(
        max_new_tokens=max_new_tokens,
        num_beams=num_beams,
        do_sample=False,
        eos_token_id=sorted(stops) or None,
        pad_token_id=ends[0] if ends else 0,
    )
    generators = _generators(seed, prompts, contrasts, strengths) if do_sample else []
    order = sorted(range(len(prompts)), key=lambda i: (max(len(x[i]), len(other[i])), i))
    results: list[Contrasted | None] = [None] * len(prompts)
    with _plain_defaults(lm.bridge.original_model):
        for begin in track(range(0, len(order), batch_size), progress):
            chunk = order[begin : begin + batch_size]
            processor = ContrastiveScores([strengths[i] for i in chunk], top_k, trace)
            new = contrastive_tokens(
                lm.bridge.original_model,
                [x[i] for i in chunk],
                [other[i] for i in chunk],
                processor,
                config=config,
                then=[*_warpers(temperature, top_p), _SharedDraw([generators[i] for i in chunk])]
                if do_sample
                else [],
            )
            traces = processor.traced(new) if trace else None
            for k, i in enumerate(chunk):
                tokens = new[k].tolist()
                count = next((j + 1 for j, t in enumerate(tokens) if t in stops), len(tokens))
                results[i] = _contrasted(
                    lm,
                    x[i],
                    tokens[:count],
                    ends,
                    () if traces is None else tuple(t[k, :count].tolist() for t in traces),
                )
    return [result for result in results if result is not None]


def check_top_k(top_k: int, vocabulary: int) -> None:
    """Refuse a K that does not fit the vocabulary.

    Raises:
        UserError: K is below 1 or above the vocabulary's size.
    """
    if not 1 <= top_k <= vocabulary:
        raise UserError(
            f"top_k={top_k} is not between 1 and the vocabulary's {vocabulary} tokens"
        )


def sentence_ends(lm: LanguageModel) -> tuple[int, ...]:
    """The tokens that hold the end of a sentence."""
    table = lm.tokenizer.batch_decode(
        [[token] for token in range(min(len(lm.tokenizer), lm.vocab_size))]
    )
    return tuple(t for t, text in enumerate(table) if set(text) & set(SENTENCE_ENDS))


def _check_options(
    lm: LanguageModel,
    prompts: Sequence[str],
    contrasts: Sequence[str],
    strengths: Sequence[float],
    top_k: int,
    max_new_tokens: int,
    batch_size: int,
) -> None:
    if not len(prompts) == len(contrasts) == len(strengths):
        raise UserError(
            f"{len(prompts)} prompts, {len(contrasts)} contrasts and {len(strengths)} values of "
            "lambda: give one of each"
        )
    for value in strengths:
        if not 0 <= value < math.inf:
            raise UserError(
                f"lambda={value:g} is not a number from 0 up; to turn the contrast round, swap the "
                "prompts"
            )
    check_top_k(top_k, lm.vocab_size)
    if max_new_tokens < 1 or batch_size < 1:
        raise UserError(f"max_new_tokens={max_new_tokens}, batch_size={batch_size}: at least 1")


def _check_pair(
    lm: LanguageModel, prompt: str, other: str, a: list[int], b: list[int], room: int
) -> None:
    if not a or not b:
        raise UserError(f"empty prompt: {lm.name} has no beginning-of-text token to start from")
    if a == b:
        raise UserError(
            f"the prompt equals its contrast, {excerpt(prompt)}: there is nothing to contrast"
        )
    for text, ids in ((prompt, a), (other, b)):
        if len(ids) + room > lm.context_length:
            raise UserError(
                f"a prompt of {len(ids)} tokens and {room} new ones exceed the context of "
                f"{lm.name} ({lm.context_length}): {excerpt(text)}"
            )


def _contrasted(
    lm: LanguageModel,
    prompt: list[int],
    tokens: list[int],
    ends: Sequence[int],
    traces: tuple[list[float], ...],
) -> Contrasted:
    shown = tokens[:-1] if tokens and tokens[-1] in ends else tokens
    begun = ["", *(_text_after(lm, prompt, shown[: k + 1]) for k in range(len(shown)))]
    # A character of several tokens shows with the last of them.
    pieces = [b[len(a) :] if b.startswith(a) else "" for a, b in zip(begun, begun[1:], strict=False)]
    pieces += [""] * (len(tokens) - len(shown))
    delta, divergence = traces or ([], [])
    return Contrasted(
        begun[-1], tuple(tokens), tuple(pieces), tuple(delta), tuple(divergence)
    )


def _generators(
    seed: int, prompts: Sequence[str], contrasts: Sequence[str], strengths: Sequence[float]
) -> list[np.random.Generator]:
    met: Counter[tuple[str, str, float]] = Counter()
    generators = []
    for pair in zip(prompts, contrasts, strengths, strict=True):
        generators.append(generator(seed, "cid", *pair, met[pair]))
        met[pair] += 1
    return generators


def _warpers(temperature: float, top_p: float) -> list[Any]:
    from transformers import TemperatureLogitsWarper, TopPLogitsWarper

    found: list[Any] = []
    if temperature != 1:
        found.append(TemperatureLogitsWarper(float(temperature)))
    if top_p < 1:
        found.append(TopPLogitsWarper(float(top_p)))
    return found


def _processors(processors: Sequence[Any]) -> Any:
    from transformers import LogitsProcessorList  # late: transformers is slow to import

    return LogitsProcessorList(processors)
