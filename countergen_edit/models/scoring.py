"""Log-probabilities of continuations and texts, in nats and float64, whatever the batches.

They equal a forward pass of each text alone to 1e-5 for float32 weights. Whole next-token
distributions come one batch at a time (`batches`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
"""Logits widened at once; a CPU is four times as fast while they stay in its cache."""


def to_float64(x: Float[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """The same in float64, on the CPU where the device (Apple's) has none."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def _parts(logits: Float[Tensor, "read vocab"]) -> tuple[Float[Tensor, "_ vocab"], ...]:
    most = _CPU_WIDE if logits.device.type == "cpu" else _ACCELERATOR_WIDE
    return torch.split(logits, max(1, most // logits.shape[-1]))


def _log_norms(logits: Float[Tensor, "read vocab"]) -> Float64[Tensor, " read"]:
    return torch.cat([to_float64(part).logsumexp(-1) for part in _parts(logits)])


def log_likelihood(
    logits: Float[Tensor, "token vocab"], targets: Int[Tensor, " token"]
) -> Float64[Tensor, " token"]:
    """log P of one token after each position, (token,), in nats."""
    of_targets = logits.gather(1, targets.to(logits.device)[:, None])[:, 0]
    return to_float64(of_targets) - _log_norms(logits)


def divergence(
    before: Float[Tensor, "token vocab"], after: Float[Tensor, "token vocab"]
) -> Float64[Tensor, " token"]:
    """KL(before ‖ after) at each position from logits, (token,), in nats."""
    values = []
    for pair in zip(_parts(before), _parts(after), strict=True):
        p, q = (to_float64(logits).log_softmax(-1) for logits in pair)
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
    """The batch of `base` with the preface of `lm`, reading the same tokens."""
    if lm.preface == base.preface:
        return batch
    first = len(opening_ids(base))
    preface = torch.tensor(opening_ids(lm)).expand(len(batch.ids), -1)
    return replace(
        batch,
        ids=torch.cat([preface, batch.ids[:, first:]], dim=1),
        mask=torch.cat([torch.ones_like(preface), batch.mask[:, first:]], dim=1),
        position=batch.position + preface.shape[1] - first,
    )


@dataclass(frozen=True)
class TextScores:
    """Log P of texts in nats, and the number of tokens it is summed over."""

    log_p: Float64[np.ndarray, " text"]
    tokens: Int[np.ndarray, " text"]


def continuation_log_probs(
    lm: LanguageModel,
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    progress: str | None = None,
) -> Float64[np.ndarray, " row"]:
    """log P(continuation | prompt), (row,), in nats, summed over the continuation's tokens.

    The joint text is tokenised; a token belongs to the continuation, which includes its leading
    space, if it shows any of it. `UserError` if one is empty, or nothing precedes its first token.
    """
    return score_pairs(lm, _paired(prompts, continuations), False, True, progress).log_p


def text_log_probs(
    lm: LanguageModel,
    prompts: Sequence[str],
    texts: Sequence[str],
    *,
    chat: bool = False,
    progress: str | None = None,
) -> TextScores:
    """log P(text | prompt) and the number of tokens; a prompt may be empty.

    The first token is left out where nothing precedes it. With `chat`, prompts are messages in the
    chat template and texts whole replies. `UserError` for a text without a token to score.
    """
    return score_pairs(lm, _paired(prompts, texts), chat, False, progress)


def _paired(prompts: Sequence[str], texts: Sequence[str]) -> Pairs:
    if len(prompts) != len(texts):
        raise UserError(f"{len(prompts)} prompts, {len(texts)} continuations: give one for each")
    return [*zip(prompts, texts, strict=True)]


@singledispatch
def score_pairs(
    lm: LanguageModel, pairs: Pairs, chat: bool, every: bool, progress: str | None
) -> TextScores:
    """Score texts after their prompts; with `every`, each of their tokens."""
    count = len(pairs)
    ends = np.cumsum([len(prompt) + len(text) for prompt, text in pairs])
    edges = [0, *(np.flatnonzero(np.diff(ends // PORTION)) + 1).tolist(), count]
    if len(edges) > 2:  # nothing of so many texts is kept for another pass
        lm = lm.with_preface(lm.preface, lm.chat.request)

    def run() -> TextScores:
        sums, counts = np.empty(count), np.empty(count, np.int64)
        for first, end in pairwise(edges) if count else ():
            portion = pairs[first:end]
            key = (batch_tokens(lm, SCORES), chat, every, *portion)
            targets, batches, lengths = lm.memo(key, partial(_reading, lm, portion, chat, every))
            values = np.empty(len(targets))
            for batch in track(batches, progress, (first / count, end / count)):
                values[batch.slot] = read_log_probs(lm, targets, batch)
            starts = np.cumsum([0, *lengths])[:-1]
            sums[first:end], counts[first:end] = np.add.reduceat(values, starts), lengths
        return TextScores(sums, counts)

    return within_memory(lm, SCORES, run)


def _reading(
    lm: LanguageModel, pairs: Pairs, chat: bool, every: bool
) -> tuple[Int[np.ndarray, " token"], list[Batch], list[int]]:
    """Target tokens, the batches that read them, and the numbers by text."""
    whole = [prompt + text for prompt, text in pairs]
    encodings = encode_replies(lm, *zip(*pairs, strict=True)) if chat else encode(lm, whole)
    opened = chat or every or opens_texts(lm)
    spans = []
    for (prompt, text), encoding in zip(pairs, encodings, strict=True):
        span = encoding.after(0 if chat else len(prompt))
        if every and not span:
            raise UserError(f"empty continuation {text!r} after {excerpt(prompt)}")
        if every and span[0] == 0:
            raise UserError(
                f"nothing precedes the first token of {excerpt(prompt + text)}: "
                f"{lm.name} has no beginning-of-text token, so give a longer prompt"
            )
        if not opened and span and span[0] == encoding.after(0)[0]:
            span = span[1:]
        if not span:
            raise UserError(
                f"no token of {excerpt(text)} has another before it in {lm.name}: give a "
                "longer text, or load the model with bos=true"
            )
        spans.append(span)
    batches = plan(
        # A row's last token is never an input.
        [tuple(e.ids[: span[-1]]) for e, span in zip(encodings, spans, strict=True)],
        [[k - 1 for k in span] for span in spans],
        max_batch_tokens=batch_tokens(lm, SCORES),
        max_batch_reads=batch_reads(lm, SCORES, 4),
        branch=runs_trees(lm, max(span[-1] for span in spans)),
    )
    targets = [e.ids[k] for e, span in zip(encodings, spans, strict=True) for k in span]
    return np.array(targets, dtype=np.int64), batches, [len(span) for span in spans]


def read_log_probs(
    lm: LanguageModel, all_targets: Int[np.ndarray, " token"], batch: Batch
) -> Float64[np.ndarray, " read"]:
    """log P of the target of every slot at its read position, (read,), in nats."""
    unique: Any = torch.unique
    targets = torch.from_numpy(all_targets[batch.slot])
    cells, cell = unique(torch.stack([batch.row, batch.position]), dim=1, return_inverse=True)
    logits = lm.logits(batch.ids, batch.mask, (cells[0], cells[1]))
    cell = cell.to(logits.device)
    of_targets = to_float64(logits[cell, targets.to(logits.device)])
    return np.asarray((of_targets - _log_norms(logits)[cell]).cpu().numpy())
