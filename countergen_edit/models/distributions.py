"""Whole next-token distributions, one batch at a time, and log-probabilities in float64.

for batch in batches(lm, texts):
    at = (batch.row, batch.position)
    before = lm.logits(batch.ids, batch.mask, at)
    with applied(lm, edit) as edited:
        own = after_preface(edited, batch, lm)
        after = edited.logits(own.ids, own.mask, (own.row, own.position))
    kl.append(divergence(before, after))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from countergen_edit.models.batching import Batch, batch_tokens, plan
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.tokens import encode, first_read, opening_ids


def batches(
    lm: LanguageModel, texts: Sequence[str], *, max_batch_tokens: int | None = None
) -> list[Batch]:
    """The texts as batches that read all positions from `first_read`, repeated texts as often.

    `Batch.slot` counts these positions over all texts in order.
    """
    tokens = batch_tokens(lm, max_batch_tokens)
    return lm.memo(("distributions", tokens, *texts), lambda: _batches(lm, texts, tokens))


def _batches(lm: LanguageModel, texts: Sequence[str], max_batch_tokens: int) -> list[Batch]:
    rows = [tuple(encoding.ids) for encoding in encode(lm, texts)]
    first = first_read(lm)
    return plan(
        rows,
        [range(first, len(row)) for row in rows],
        max_batch_tokens=max_batch_tokens,
        bytes_per_position=lm.vocab_size * 8,  # float64
        share=False,
    )


def after_preface(lm: LanguageModel, batch: Batch, base: LanguageModel) -> Batch:
    """The batch of `base` with the preface of `lm` instead, reading the same tokens."""
    if lm.preface == base.preface:
        return batch
    rows, first = len(batch.ids), len(opening_ids(base))
    opening = opening_ids(lm)
    shift = len(opening) - first
    preface = torch.tensor(opening).expand(rows, -1)
    return Batch(
        torch.cat([preface, batch.ids[:, first:]], dim=1),
        torch.cat([torch.ones_like(preface), batch.mask[:, first:]], dim=1),
        batch.row,
        batch.position + shift,
        batch.slot,
    )


def log_probs(lm: LanguageModel, batch: Batch) -> Float64[Tensor, "token vocab"]:
    """Next-token log-probabilities at every position the batch reads, (token, vocab), nats."""
    return to_float64(lm.logits(batch.ids, batch.mask, (batch.row, batch.position))).log_softmax(-1)


def divergence(
    before: Float[Tensor, "token vocab"], after: Float[Tensor, "token vocab"]
) -> Float64[Tensor, " token"]:
    """KL(before ‖ after) at each position from logits, (token,), in nats."""
    values = []
    for rows in chunks(before):
        p, q = (to_float64(logits[rows]).log_softmax(-1) for logits in (before, after))
        values.append((p.exp() * (p - q)).sum(-1))
    return torch.cat(values)


_CPU_WIDE, _ACCELERATOR_WIDE = 1 << 18, 1 << 24
"""Logits widened to float64 at once; a CPU is four times as fast while they stay in its cache."""


def to_float64(x: Float[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """The same in float64, on the CPU where the device (Apple's) has none."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def chunks(logits: Float[Tensor, "read vocab"]) -> Iterator[slice]:
    """Rows to to_float64 together."""
    elements = _CPU_WIDE if logits.device.type == "cpu" else _ACCELERATOR_WIDE
    step = max(1, elements // logits.shape[-1])
    for first in range(0, len(logits), step):
        yield slice(first, first + step)


def log_likelihood(
    logits: Float[Tensor, "token vocab"], targets: Int[Tensor, " token"]
) -> Float64[Tensor, " token"]:
    """log P of one token after each position, (token,), in nats."""
    own = to_float64(logits.gather(1, targets.to(logits.device)[:, None])[:, 0])
    return own - torch.cat([to_float64(logits[rows]).logsumexp(-1) for rows in chunks(logits)])
