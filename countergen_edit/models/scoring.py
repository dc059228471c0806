"""Log-probabilities of continuations, in nats and float64, whatever the batches.

They equal a forward pass of each text alone to 1e-5 for float32 weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from countergen_edit.core.errors import UserError
from countergen_edit.models.batching import LOGIT_BYTES, Batch, batch_tokens, plan, within_memory
from countergen_edit.models.distributions import chunks, log_likelihood, to_float64
from countergen_edit.models.generation import decoder_start
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import track
from countergen_edit.models.tokens import (
    Encoding,
    encode,
    encode_replies,
    excerpt,
    opens_texts,
)
from countergen_edit.models.trees import runs_trees


@singledispatch
def continuation_log_probs(
    lm: LanguageModel,
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    max_batch_tokens: int | None = None,
    progress: str | None = None,
) -> Float64[np.ndarray, " row"]:
    """log P(continuation | prompt), summed over the continuation's tokens.

    The joint text is tokenised; a token belongs to the continuation if it shows any of it, also
    across the boundary.

    Parameters
    ----------
    lm : LanguageModel
        With whatever hooks are attached to its bridge.
    prompts, continuations : sequences of str
        Continuations with their leading space.
    max_batch_tokens : int, optional
        Changes speed and memory, not the result; None takes `batch_tokens`.

    Returns
    -------
    ndarray, (row,)
        Nats.

    Raises
    ------
    UserError
        A continuation is empty, or nothing precedes its first token.
    """
    check_continuations(prompts, continuations)
    tokens = batch_tokens(lm, max_batch_tokens)
    key = ("continuations", tokens, *zip(prompts, continuations, strict=True))
    reading = lm.memo(key, lambda: _continuations(lm, prompts, continuations, tokens))
    values = _score(lm, reading, progress)
    return np.add.reduceat(values, reading.starts) if len(values) else values


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
    asked: bool = False,
    max_batch_tokens: int | None = None,
    progress: str | None = None,
) -> TextScores:
    """log P(text | prompt), and of how many tokens; a prompt may be empty.

    Where no prompt, BOS or chat template precedes the first token, that token is left out.

    Parameters
    ----------
    lm, prompts, texts, max_batch_tokens
        As in `continuation_log_probs`.
    asked : bool
        Prompts are a user's messages in the chat template and texts the whole replies; an
        encoder-decoder model reads the prompt and scores its decoder's text.
    """
    check_continuations(prompts, texts)
    tokens = batch_tokens(lm, max_batch_tokens)
    if asked and lm.is_encoder_decoder:
        return TextScores(*reply_log_probs(lm, prompts, texts, tokens, progress))
    key = ("texts", asked, tokens, *zip(prompts, texts, strict=True))
    spans, reading = lm.memo(key, lambda: _texts(lm, prompts, texts, asked, tokens))
    values = _score(lm, reading, progress)
    sums = np.add.reduceat(values, reading.starts) if len(values) else values
    return TextScores(sums, np.array([len(span) for span in spans], dtype=np.int64))


def _texts(
    lm: LanguageModel,
    prompts: Sequence[str],
    texts: Sequence[str],
    asked: bool,
    max_batch_tokens: int,
) -> tuple[list[list[int]], _Reading]:
    if asked:
        encodings, starts = encode_replies(lm, prompts, texts), [0] * len(texts)
    else:
        encodings = encode(lm, [p + t for p, t in zip(prompts, texts, strict=True)])
        starts = [len(prompt) for prompt in prompts]
    opened = asked or opens_texts(lm)
    spans = []
    for start, text, encoding in zip(starts, texts, encodings, strict=True):
        span = encoding.after(start)
        if not opened and span and not encoding.after(0).index(span[0]):
            span = span[1:]
        if not span:
            raise UserError(
                f"no token of {excerpt(text)} has another before it in {lm.name}: give a longer "
                "text, or load the model with bos=true"
            )
        spans.append(span)
    return spans, _reading(lm, encodings, spans, max_batch_tokens)


def check_continuations(prompts: Sequence[str], continuations: Sequence[str]) -> None:
    """Raise a `UserError` unless there are as many prompts as continuations."""
    if len(prompts) != len(continuations):
        raise UserError(
            f"{len(prompts)} prompts but {len(continuations)} continuations: give one for each"
        )


def _continuations(
    lm: LanguageModel,
    prompts: Sequence[str],
    continuations: Sequence[str],
    max_batch_tokens: int,
) -> _Reading:
    encodings = encode(lm, [p + c for p, c in zip(prompts, continuations, strict=True)])
    spans = []
    for prompt, continuation, encoding in zip(prompts, continuations, encodings, strict=True):
        span = encoding.after(len(prompt))
        if not span:
            raise UserError(f"empty continuation {continuation!r} after {excerpt(prompt)}")
        if span[0] == 0:
            raise UserError(
                f"nothing precedes the first token of {excerpt(prompt + continuation)}: {lm.name} "
                "has no beginning-of-text token, so give a longer prompt"
            )
        spans.append(span)
    return _reading(lm, encodings, spans, max_batch_tokens)


@dataclass(frozen=True)
class _Reading:
    """Batches and targets of some texts; `starts` is where the tokens of each text begin."""

    targets: Int[np.ndarray, " token"]
    batches: list[Batch]
    starts: Int[np.ndarray, " text"]


def _reading(
    lm: LanguageModel,
    encodings: Sequence[Encoding],
    spans: Sequence[list[int]],
    max_batch_tokens: int,
) -> _Reading:
    """Plan reading the tokens at `spans`; a row's last token is never an input."""
    targets = [e.ids[k] for e, span in zip(encodings, spans, strict=True) for k in span]
    texts = [tuple(e.ids[: max(s, default=0)]) for e, s in zip(encodings, spans, strict=True)]
    batches = plan(
        texts,
        [[k - 1 for k in span] for span in spans],
        max_batch_tokens=max_batch_tokens,
        bytes_per_position=lm.vocab_size * 4,
        branch=runs_trees(lm, max(map(len, texts), default=0)),
    )
    starts = np.cumsum([0, *map(len, spans)])[:-1]
    return _Reading(np.array(targets, dtype=np.int64), batches, starts)


def _score(
    lm: LanguageModel, reading: _Reading, progress: str | None
) -> Float64[np.ndarray, " token"]:
    """log P of the tokens that are read, in order."""
    values = np.empty(len(reading.targets))
    for batch in track(reading.batches, progress):
        for part, read in within_memory(batch, partial(_read, lm, reading.targets)):
            values[part.slot] = read
    return values


def _read(
    lm: LanguageModel, all_targets: Int[np.ndarray, " token"], batch: Batch
) -> Float64[np.ndarray, " read"]:
    """Log softmax at the read positions, normalised once per position."""
    unique: Any = torch.unique
    targets = torch.from_numpy(all_targets[batch.slot])
    cells, cell = unique(torch.stack([batch.row, batch.position]), dim=1, return_inverse=True)
    logits = lm.logits(batch.ids, batch.mask, (cells[0], cells[1]))
    cell, targets = cell.to(logits.device), targets.to(logits.device)
    norm = torch.cat([to_float64(logits[rows]).logsumexp(-1) for rows in chunks(logits)])
    own = to_float64(logits[cell, targets])
    values: Float64[np.ndarray, " read"] = (own - norm[cell]).cpu().numpy()
    return values


def reply_log_probs(
    lm: LanguageModel,
    prompts: Sequence[str],
    replies: Sequence[str],
    max_batch_tokens: int,
    progress: str | None = None,
) -> tuple[Float64[np.ndarray, " reply"], Int[np.ndarray, " reply"]]:
    """log P(reply | prompt) in an encoder-decoder model, and the number of tokens of each reply.

    Replies are tokenised alone; special tokens before them are given and not scored, nor is an end
    token. A prompt is read once for all its replies in a batch. `UserError` if a reply is empty, a
    text too long, or the decoder's start token unknown.
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
    """Replies to run together, longest prompts first, within `most` tokens and `LOGIT_BYTES`."""
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
    """Right-padded token ids and their mask."""
    lengths = [len(row) for row in rows]
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return ids, (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
