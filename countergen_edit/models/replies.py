"""Log-probabilities of what a decoder writes after what an encoder has read.

In: prompts and replies, of an encoder-decoder model. Out: natural logarithms in float64, summed
over the tokens of a reply, and how many these are. A reply is tokenised alone: special tokens that
the tokenizer puts before it are given and not scored, nor is what would end it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from countergen_edit.errors import UserError
from countergen_edit.models.batching import LOGIT_BYTES
from countergen_edit.models.float64 import log_likelihood
from countergen_edit.models.generation import decoder_start
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import track
from countergen_edit.models.tokens import encode, excerpt


def reply_log_probs(
    lm: LanguageModel,
    prompts: Sequence[str],
    replies: Sequence[str],
    max_batch_tokens: int,
    progress: str | None = None,
) -> tuple[Float64[np.ndarray, " reply"], Int[np.ndarray, " reply"]]:
    """log P(reply | prompt) and the number of tokens, of each reply.

    A prompt is read once for replies that share it and stand in one batch.

    Args:
        lm: an encoder-decoder model, with whatever hooks are attached to its bridge.
        prompts: one for each reply; the encoder reads them.
        replies: what the decoder writes.
        max_batch_tokens: of prompts and replies together; changes speed and memory, not the result.
        progress: description of a progress bar.

    Raises:
        UserError: a reply is empty, a text is longer than the model's context, or the model does
            not say with which token its decoder begins.
    """
    start = decoder_start(lm)
    if start is None:
        raise UserError(f"{lm.name} names no decoder_start_token_id: set it in its config.json")
    read, written = encode(lm, prompts), encode(lm, replies)
    spans = [encoding.after(0) for encoding in written]
    for prompt, reply, span in zip(prompts, replies, spans, strict=True):
        if not span:
            raise UserError(f"empty reply {reply!r} to {excerpt(prompt)}")
    sums = np.zeros(len(replies))
    texts = [tuple(encoding.ids) for encoding in read]
    ends = [span[-1] for span in spans]
    for rows in track([*_batches(texts, ends, lm.vocab_size, max_batch_tokens)], progress):
        number: dict[tuple[int, ...], int] = {}
        of = [number.setdefault(texts[i], len(number)) for i in rows]
        ids, mask = _padded([*number])
        decoded, _ = _padded([(start, *written[i].ids[: ends[i]]) for i in rows])
        logits = lm.reply_logits(ids, mask, torch.tensor(of), decoded)
        reads = [(row, k, written[i].ids[k]) for row, i in enumerate(rows) for k in spans[i]]
        row, column, target = torch.tensor(reads).T
        values = log_likelihood(logits[row.to(logits.device), column.to(logits.device)], target)
        np.add.at(sums, np.array(rows)[row.numpy()], values.cpu().numpy())
    return sums, np.array([len(span) for span in spans], dtype=np.int64)


def _batches(
    texts: Sequence[tuple[int, ...]], ends: Sequence[int], vocab_size: int, most: int
) -> Iterator[list[int]]:
    """Replies to run together, those to the longest prompts first; a prompt counts once in a batch.

    Args:
        texts: what the encoder reads, of each reply.
        ends: how many tokens of a reply the decoder reads after its first.
        vocab_size: width of the logits, whose memory is bounded.
        most: tokens in a batch, padding included; a longer reply runs alone.
    """
    batch: list[int] = []
    prompts = width = 0
    for i in sorted(range(len(texts)), key=lambda i: (-len(texts[i]), texts[i], i)):
        is_new = not batch or texts[i] != texts[batch[-1]]  # equal ones are side by side
        wider, rows = max(width, 1 + ends[i]), len(batch) + 1
        tokens = (prompts + is_new) * len(texts[(batch or [i])[0]]) + rows * wider
        if batch and (tokens > most or rows * wider * vocab_size * 4 > LOGIT_BYTES):
            yield batch
            batch, prompts, is_new, wider = [], 0, True, 1 + ends[i]
        batch.append(i)
        prompts, width = prompts + is_new, wider
    if batch:
        yield batch


def _padded(
    rows: Sequence[Sequence[int]],
) -> tuple[Int[Tensor, "row time"], Int[Tensor, "row time"]]:
    """Token ids of rows, padded on the right, and where they are real."""
    lengths = [len(row) for row in rows]
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return ids, (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
