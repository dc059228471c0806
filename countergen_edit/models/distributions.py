"""Whole next-token distributions, batch by batch.

In: texts. Out: log-probabilities ``[token, vocab]`` of one batch at a time, so that two states of a
model (edited and not) can be compared without storing either:

    for batch in batches(lm, texts):
        before = log_probs(lm, batch)
        with applied(lm, edit):
            after = log_probs(lm, batch)
        kl.append((before.exp() * (before - after)).sum(-1))

Refused: a text longer than the context.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float64
from torch import Tensor

from countergen_edit.models.batching import Batch, plan
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.scoring import widen
from countergen_edit.models.tokens import encode


def batches(
    lm: LanguageModel, texts: Sequence[str], *, max_batch_tokens: int = 16384
) -> list[Batch]:
    """The texts as batches that read every real position, repeated texts as often as they occur.

    `Batch.slot` counts tokens over all texts in their order (special tokens included), for whoever
    needs to know where a row of `log_probs` belongs.
    """
    key = ("distributions", max_batch_tokens, *texts)
    return lm.memo(key, lambda: _batches(lm, texts, max_batch_tokens))


def _batches(lm: LanguageModel, texts: Sequence[str], max_batch_tokens: int) -> list[Batch]:
    rows = [tuple(encoding.ids) for encoding in encode(lm, texts)]
    return plan(
        rows,
        [range(len(row)) for row in rows],
        max_batch_tokens=max_batch_tokens,
        bytes_per_position=lm.vocab_size * 8,  # float64
        share=False,
    )


def log_probs(lm: LanguageModel, batch: Batch) -> Float64[Tensor, "token vocab"]:
    """Next-token log-probabilities at every position the batch reads, padding left out."""
    return widen(lm.logits(batch.ids, batch.mask, (batch.row, batch.position))).log_softmax(-1)
