"""Log-probabilities of continuations and texts, in nats and float64, whatever the batches.

They equal a forward pass of each text alone to 1e-5 for float32 weights. Many texts are tokenised
and scored in portions. Whole next-token distributions come one batch at a time (`batches`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.models.batching import Batch, batch_reads, batch_tokens, plan, runs_trees
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.memory import within_memory
from countergen_edit.models.progress import track
from countergen_edit.models.tokens import (
    Encoding,
    encode,
    encode_replies,
    excerpt,
    first_read,
    opening_ids,
    opens_texts,
)

PORTION = 2**22
"""Characters of the texts that are tokenised and batched together."""
SCORES = "scores"
"""The method, by which batches are halved."""
Pairs = Sequence[tuple[str, str]]
"""Texts, each with what stands before it."""
_CPU_WIDE, _ACCELERATOR_WIDE = 1 << 18, 1 << 24
"""Logits widened to float64 at once; a CPU is four times as fast while they stay in its cache."""


def to_float64(x: Float[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """The same in float64, on the CPU where the device (Apple's) has none."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def _chunks(logits: Float[Tensor, "read vocab"]) -> Iterator[slice]:
    elements = _CPU_WIDE if logits.device.type == "cpu" else _ACCELERATOR_WIDE
    step = max(1, elements // logits.shape[-1])
    for first in range(0, len(logits), step):
        yield slice(first, first + step)


def _log_norms(logits: Float[Tensor, "read vocab"]) -> Float64[Tensor, " read"]:
    return torch.cat([to_float64(logits[rows]).logsumexp(-1) for rows in _chunks(logits)])


def log_likelihood(
    logits: Float[Tensor, "token vocab"], targets: Int[Tensor, " token"]
) -> Float64[Tensor, " token"]:
    """log P of one token after each position, (token,), in nats."""
    own = to_float64(logits.gather(1, targets.to(logits.device)[:, None])[:, 0])
    return own - _log_norms(logits)


def divergence(
    before: Float[Tensor, "token vocab"], after: Float[Tensor, "token vocab"]
) -> Float64[Tensor, " token"]:
    """KL(before ‖ after) at each position from logits, (token,), in nats."""
    values = []
    for rows in _chunks(before):
        p, q = (to_float64(logits[rows]).log_softmax(-1) for logits in (before, after))
        values.append((p.exp() * (p - q)).sum(-1))
    return torch.cat(values)


def batches(lm: LanguageModel, texts: Sequence[str]) -> list[Batch]:
    """Batches that read all positions of the texts from `first_read`; repeated texts repeat.

    `Batch.slot` counts these positions over all texts in order. Run within `within_memory`.
    """

    def make() -> list[Batch]:
        rows = [tuple(encoding.ids) for encoding in encode(lm, texts)]
        first = first_read(lm)
        return plan(
            rows,
            [range(first, len(row)) for row in rows],
            max_batch_tokens=batch_tokens(lm, SCORES),
            max_batch_reads=batch_reads(lm, SCORES, 8),  # float64
            share=False,
        )

    return lm.memo(("distributions", batch_tokens(lm, SCORES), *texts), make)


def after_preface(lm: LanguageModel, batch: Batch, base: LanguageModel) -> Batch:
    """The batch of `base` with the preface of `lm` instead, reading the same tokens."""
    if lm.preface == base.preface:
        return batch
    rows, first, opening = len(batch.ids), len(opening_ids(base)), opening_ids(lm)
    preface = torch.tensor(opening).expand(rows, -1)
    return Batch(
        torch.cat([preface, batch.ids[:, first:]], dim=1),
        torch.cat([torch.ones_like(preface), batch.mask[:, first:]], dim=1),
        batch.row,
        batch.position + len(opening) - first,
        batch.slot,
    )


@singledispatch
def continuation_log_probs(
    lm: LanguageModel,
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    progress: str | None = None,
) -> Float64[np.ndarray, " row"]:
    """log P(continuation | prompt), (row,), in nats, summed over the continuation's tokens.

    The joint text is tokenised; a token belongs to the continuation if it shows any of it, also
    across the boundary. Continuations include their leading space. Hooks attached to the bridge are
    active.

    `UserError` if a continuation is empty, or nothing precedes its first token.
    """
    check_continuations(prompts, continuations)

    def make(lm: LanguageModel, pairs: Pairs) -> _Reading:
        encodings = encode(lm, [p + c for p, c in pairs])
        spans = []
        for (prompt, continuation), encoding in zip(pairs, encodings, strict=True):
            span = encoding.after(len(prompt))
            if not span:
                raise UserError(f"empty continuation {continuation!r} after {excerpt(prompt)}")
            if span[0] == 0:
                raise UserError(
                    f"nothing precedes the first token of {excerpt(prompt + continuation)}: "
                    f"{lm.name} has no beginning-of-text token, so give a longer prompt"
                )
            spans.append(span)
        return _reading(lm, encodings, spans)

    pairs = [*zip(prompts, continuations, strict=True)]
    return _score(lm, pairs, make, progress, "continuations").log_p


@dataclass(frozen=True)
class TextScores:
    """Log P of texts in nats, and the number of tokens it is summed over."""

    log_p: Float64[np.ndarray, " text"]
    tokens: Int[np.ndarray, " text"]


@singledispatch
def text_log_probs(
    lm: LanguageModel,
    prompts: Sequence[str],
    texts: Sequence[str],
    *,
    chat: bool = False,
    progress: str | None = None,
) -> TextScores:
    """log P(text | prompt) and the number of tokens; a prompt may be empty.

    Where no prompt, BOS or chat template precedes the first token, that token is left out. With
    `chat`, prompts are a user's messages in the chat template and texts the whole replies.
    `UserError` for a text without a token to score.
    """
    check_continuations(prompts, texts)

    def make(lm: LanguageModel, pairs: Pairs) -> _Reading:
        whole = [prompt + text for prompt, text in pairs]
        encodings = encode_replies(lm, *zip(*pairs, strict=True)) if chat else encode(lm, whole)
        opened = chat or opens_texts(lm)
        spans = []
        for (prompt, text), encoding in zip(pairs, encodings, strict=True):
            span = encoding.after(0 if chat else len(prompt))
            if not opened and span and not encoding.after(0).index(span[0]):
                span = span[1:]
            if not span:
                raise UserError(
                    f"no token of {excerpt(text)} has another before it in {lm.name}: give a "
                    "longer text, or load the model with bos=true"
                )
            spans.append(span)
        return _reading(lm, encodings, spans)

    return _score(lm, [*zip(prompts, texts, strict=True)], make, progress, "texts", chat)


def check_continuations(prompts: Sequence[str], continuations: Sequence[str]) -> None:
    """Raise a `UserError` unless there are as many prompts as continuations."""
    if len(prompts) != len(continuations):
        raise UserError(
            f"{len(prompts)} prompts, {len(continuations)} continuations: give one for each"
        )


@dataclass(frozen=True)
class _Reading:
    """Batches and target tokens of some texts, and the number of targets of each."""

    targets: Int[np.ndarray, " token"]
    batches: list[Batch]
    counts: Int[np.ndarray, " text"]


def _reading(
    lm: LanguageModel, encodings: Sequence[Encoding], spans: Sequence[list[int]]
) -> _Reading:
    """Plan reading the tokens at `spans`; a row's last token is never an input."""
    targets = [e.ids[k] for e, span in zip(encodings, spans, strict=True) for k in span]
    texts = [tuple(e.ids[: max(s, default=0)]) for e, s in zip(encodings, spans, strict=True)]
    batches = plan(
        texts,
        [[k - 1 for k in span] for span in spans],
        max_batch_tokens=batch_tokens(lm, SCORES),
        max_batch_reads=batch_reads(lm, SCORES, 4),
        branch=runs_trees(lm, max(map(len, texts), default=0)),
    )
    counts = np.array([len(span) for span in spans], dtype=np.int64)
    return _Reading(np.array(targets, dtype=np.int64), batches, counts)


def _score(
    lm: LanguageModel, pairs: Pairs, make: Callable[..., _Reading], progress: str | None, *key: Any
) -> TextScores:
    ends, count = np.cumsum([len(prompt) + len(text) for prompt, text in pairs]), len(pairs)
    edges = [0, *(np.flatnonzero(np.diff(ends // PORTION)) + 1).tolist(), count]
    if len(edges) > 2:  # nothing of so many texts is kept for another pass
        lm = lm.with_preface(lm.preface, lm.chat.request)

    def run() -> TextScores:
        sums, counts = np.empty(count), np.empty(count, np.int64)
        for first, end in pairwise(edges) if count else ():
            own = pairs[first:end]
            reading = lm.memo((batch_tokens(lm, SCORES), *key, *own), partial(make, lm, own))
            values = np.empty(len(reading.targets))
            for batch in track(reading.batches, progress, (first / count, end / count)):
                values[batch.slot] = read_log_probs(lm, reading.targets, batch)
            starts = np.cumsum([0, *reading.counts])[:-1]
            sums[first:end], counts[first:end] = np.add.reduceat(values, starts), reading.counts
        return TextScores(sums, counts)

    return within_memory(lm, SCORES, run)


def read_log_probs(
    lm: LanguageModel, all_targets: Int[np.ndarray, " token"], batch: Batch
) -> Float64[np.ndarray, " read"]:
    """log P of the target of every slot at its read position, (read,), in nats."""
    unique: Any = torch.unique
    targets = torch.from_numpy(all_targets[batch.slot])
    cells, cell = unique(torch.stack([batch.row, batch.position]), dim=1, return_inverse=True)
    logits = lm.logits(batch.ids, batch.mask, (cells[0], cells[1]))
    cell, targets = cell.to(logits.device), targets.to(logits.device)
    own = to_float64(logits[cell, targets])
    return np.asarray((own - _log_norms(logits)[cell]).cpu().numpy())
