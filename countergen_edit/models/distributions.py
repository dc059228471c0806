"""Whole next-token distributions, batch by batch.

In: texts. Out: log-probabilities ``[token, vocab]`` of one batch at a time, and what sets two
states of a model (edited and not) apart, without storing either:

    for batch in batches(lm, texts):
        at = (batch.row, batch.position)
        before = lm.logits(batch.ids, batch.mask, at)
        with applied(lm, edit) as edited:
            own = after_preface(edited, batch, lm)
            after = edited.logits(own.ids, own.mask, (own.row, own.position))
        kl.append(divergence(before, after))

Refused: a text longer than the context.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from countergen_edit.models.batching import Batch, batch_tokens, plan
from countergen_edit.models.float64 import chunks, widen
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.tokens import encode, first_read, opening_ids


def batches(
    lm: LanguageModel, texts: Sequence[str], *, max_batch_tokens: int | None = None
) -> list[Batch]:
    """The texts as batches that read all of their positions, repeated ones as often as they occur.

    `Batch.slot` counts these positions over all texts in their order, from `first_read` of each
    (special tokens included), for whoever needs to know where a row of `log_probs` belongs.
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
    """Texts of a model, each after the preface of another instead, and the same tokens read.

    Args:
        lm: the model with its preface, or with that of `base`.
        batch: as `batches` gives it for `base`.
        base: the same model, with a preface of its own or with none.
    """
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
    """Next-token log-probabilities at every position the batch reads, padding left out."""
    return widen(lm.logits(batch.ids, batch.mask, (batch.row, batch.position))).log_softmax(-1)


def divergence(
    before: Float[Tensor, "token vocab"], after: Float[Tensor, "token vocab"]
) -> Float64[Tensor, " token"]:
    """KL(before ‖ after) at each position, in nats, from logits, a few rows at a time."""
    values = []
    for rows in chunks(before):
        p, q = (widen(logits[rows]).log_softmax(-1) for logits in (before, after))
        values.append((p.exp() * (p - q)).sum(-1))
    return torch.cat(values)
