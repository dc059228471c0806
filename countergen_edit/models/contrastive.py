"""Contrastive input decoding (CID): text that is likely after one prompt, unlikely after another.

    p̃(w) ∝ exp(λ Δ(w)) p(w | x, y),   Δ(w) = p(w | x, y) - p(w | x', y)

with y the text generated so far and w among the K likeliest tokens after x (Yona et al. 2023,
equation 1 and appendix B). Δ is of the whole distributions; λ = 0 is greedy decoding. Both contexts
are one batch of `generate`, [x rows; x' rows], whose logits processor gives both the same scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import pairwise

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.models.generation import check_room, end_tokens, new_tokens, text_after
from countergen_edit.models.language_model import LanguageModel, RowScores, TokenIds
from countergen_edit.models.progress import track
from countergen_edit.models.scoring import to_float64
from countergen_edit.models.tokens import encode, excerpt

TOP_K = 50  # K of the paper


@dataclass(frozen=True)
class Contrasted:
    """A continuation without special tokens, and the distance of its two contexts at each token.

    `tokens` include the end token where there is one; `delta` is p(token | x) - p(token | x') and
    `divergence` the Jensen–Shannon divergence of the two next-token distributions, in nats.
    """

    text: str
    tokens: tuple[int, ...]
    delta: tuple[float, ...]
    divergence: tuple[float, ...]


def contrast(
    logits: Float[Tensor, "pair vocab"],
    contrast_logits: Float[Tensor, "pair vocab"],
    strength: Float64[Tensor, " pair"],
    top_k: int = TOP_K,
) -> tuple[Float64[Tensor, "pair k"], Float64[Tensor, "pair k"], Int[Tensor, "pair k"]]:
    """log p̃ (equation 1), normalised, and Δ of the K likeliest tokens after x, and their ids.

    Logits may differ from log p by a constant per row; `strength` is λ of each pair.
    """
    top, token = logits.topk(top_k)
    log_norm = to_float64(logits).logsumexp(-1, keepdim=True)
    contrast_norm = to_float64(contrast_logits).logsumexp(-1, keepdim=True)
    log_p = to_float64(top) - log_norm
    log_q = to_float64(contrast_logits.gather(1, token)) - contrast_norm
    delta = log_p.exp() - log_q.exp()
    return (log_p + strength.to(log_p)[:, None] * delta).log_softmax(-1), delta, token


def jensen_shannon(
    logits: Float[Tensor, "pair vocab"], contrast_logits: Float[Tensor, "pair vocab"]
) -> Float64[Tensor, " pair"]:
    """Jensen–Shannon divergence of two next-token distributions, in nats.

    >>> p, q = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, -torch.inf]])
    >>> round(float(jensen_shannon(p, q)), 6)  # (ln 4/3 + ln 2/3 / 2 + ln 4/3 / 2) / 2
    0.215762
    """
    log_p, log_q = (to_float64(x).log_softmax(-1) for x in (logits, contrast_logits))
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)

    def to_middle(log: Float64[Tensor, "pair vocab"]) -> Float64[Tensor, " pair"]:
        # A token of probability 0 adds nothing, where 0 · (-inf) would add NaN.
        return torch.where(log.isneginf(), 0.0, log.exp() * (log - log_m)).sum(-1)

    return (to_middle(log_p) + to_middle(log_q)) / 2


class ContrastiveScores:
    """Logits processor for greedy `generate` on a doubled batch, [x rows; x' rows].

    `strength` is λ of each pair, `top_k` the number K of candidates; with `trace`, `steps` holds Δ
    of the likeliest candidate, which is written, and the divergence, of every pair at each step.
    """

    def __init__(
        self, strength: Sequence[float] | Tensor, top_k: int = TOP_K, trace: bool = False
    ) -> None:
        self.strength = torch.as_tensor(strength, dtype=torch.float64)
        self.top_k = top_k
        self.trace = trace
        self.steps: list[tuple[Float64[Tensor, " pair"], Float64[Tensor, " pair"]]] = []

    def __call__(self, input_ids: TokenIds, scores: RowScores) -> RowScores:
        x, other = scores.chunk(2)
        log_p, delta, token = contrast(x, other, self.strength, self.top_k)
        if self.trace:
            written = delta.gather(1, log_p.argmax(-1, keepdim=True))[:, 0]
            self.steps.append((written, jensen_shannon(x, other)))
        # In float64, so that no two tokens come to tie; Apple's device has none.
        wide = scores.dtype if scores.device.type == "mps" else torch.float64
        half = torch.full(x.shape, -torch.inf, dtype=wide, device=scores.device)
        return half.scatter_(1, token, log_p.to(half)).repeat(2, 1)


def contrastive_generate(
    lm: LanguageModel,
    prompts: Sequence[str],
    contrasts: Sequence[str],
    strength: float | Sequence[float],
    *,
    max_new_tokens: int,
    top_k: int = TOP_K,
    sentence: bool = False,
    trace: bool = True,
    batch_size: int = 64,
    progress: str | None = None,
) -> list[Contrasted]:
    """CID(x; x', λ) of every prompt x with its contrast x'; independent of the batches.

    `strength` is λ, of all pairs or of each; `top_k` is K, the number of the likeliest tokens after
    x to choose from. A `sentence` ends at the first token with a full stop, `!`, `?` or line break;
    `trace` records Δ and divergence. `UserError` if the lists differ in length, a prompt equals its
    contrast or is too long, λ is negative, K exceeds the vocabulary, or `batch_size` is below 1.
    """
    if isinstance(strength, int | float):
        strength = [strength] * len(prompts)
    strengths = [*map(float, strength)]
    if batch_size < 1:
        raise UserError(f"batch_size={batch_size}: at least 1")
    sizes = {"max_new_tokens": max_new_tokens, "top_k": top_k}
    x, other = check_contrasts(lm, prompts, contrasts, strengths, **sizes)
    ends = end_tokens(lm)
    stops = {*ends}
    if sentence:
        tokens = range(min(len(lm.tokenizer), lm.vocab_size))
        texts = lm.tokenizer.batch_decode([[token] for token in tokens])
        stops |= {token for token, text in enumerate(texts) if {*text} & {*".!?\n"}}
    order = sorted(range(len(prompts)), key=lambda i: max(len(x[i]), len(other[i])))
    chunks = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    results: dict[int, Contrasted] = {}
    for chunk in track(chunks, progress):
        processor = ContrastiveScores([strengths[i] for i in chunk], top_k, trace)
        rows = [*(x[i] for i in chunk), *(other[i] for i in chunk)]
        new = new_tokens(lm, rows, max_new_tokens, stops, [processor])[: len(chunk)]
        steps = zip(*processor.steps, strict=True) if trace else ()
        traced = [torch.stack(values, dim=1).tolist() for values in steps]
        untraced = [[()] * len(chunk)] * 2
        for i, tokens, *traces in zip(chunk, new, *(traced or untraced), strict=True):
            delta, divergence = (tuple(trace[: len(tokens)]) for trace in traces)
            text = text_after(lm, x[i], tokens[:-1] if tokens[-1] in ends else tokens)
            results[i] = Contrasted(text, tuple(tokens), delta, divergence)
    return [results[i] for i in range(len(prompts))]


def token_texts(lm: LanguageModel, prompt: str, tokens: Sequence[int]) -> list[str]:
    """The text that each token adds; a character shows with its last token."""
    before = encode(lm, [prompt])[0].ids
    texts = [text_after(lm, before, list(tokens[:k])) for k in range(len(tokens) + 1)]
    return [b[len(a) :] if b.startswith(a) else "" for a, b in pairwise(texts)]


@singledispatch
def check_contrasts(
    lm: LanguageModel,
    prompts: Sequence[str],
    contrasts: Sequence[str],
    strengths: Sequence[float],
    *,
    max_new_tokens: int,
    top_k: int = TOP_K,
) -> tuple[list[list[int]], list[list[int]]]:
    """Token ids of prompts and contrasts; `UserError` as `contrastive_generate`."""
    if not len(prompts) == len(contrasts) == len(strengths):
        raise UserError(
            f"{len(prompts)} prompts, {len(contrasts)} contrasts and {len(strengths)} values of "
            "lambda: give one of each"
        )
    if wrong := [value for value in strengths if not 0 <= value < math.inf]:
        raise UserError(
            f"lambda={wrong[0]:g} is not a number from 0 up; to turn the contrast round, swap the "
            "prompts"
        )
    if max_new_tokens < 1:
        raise UserError(f"max_new_tokens={max_new_tokens}: at least 1")
    if not 1 <= top_k <= lm.vocab_size:
        raise UserError(
            f"top_k={top_k} is not between 1 and the vocabulary's {lm.vocab_size} tokens"
        )
    x, other = ([e.ids for e in encode(lm, texts)] for texts in (prompts, contrasts))
    if same := [p for p, a, b in zip(prompts, x, other, strict=True) if a == b]:
        raise UserError(
            f"the prompt equals its contrast, {excerpt(same[0])}: there is nothing to contrast"
        )
    for text, ids in zip([*prompts, *contrasts], [*x, *other], strict=True):
        check_room(lm, text, ids, max_new_tokens)
    return x, other
