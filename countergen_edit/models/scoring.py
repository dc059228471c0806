"""Log-probabilities of continuations.

In: prompts and continuations. Out: natural logarithms in float64, equal to a forward
pass of each text alone to 1e-5 (float32 weights) whatever the batches.
Refused: an empty continuation, and a first token that nothing precedes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int

from countergen_edit.errors import UserError
from countergen_edit.models.batching import Batch, batch_tokens, plan, within_memory
from countergen_edit.models.float64 import chunks, widen
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import track
from countergen_edit.models.replies import reply_log_probs
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
    """log P(continuation | prompt), all tokens of the continuation together.

    The joint text is tokenised, and a token belongs to the continuation if it shows any of it: one
    that straddles the boundary does. Tokenising the pieces apart would score texts that the
    model's tokenizer never writes.

    Args:
        lm: The model, with whatever hooks are attached to its bridge.
        prompts: One for each continuation.
        continuations: With their leading space, where there is one.
        max_batch_tokens: Changes speed and memory, not the result; None takes `batch_tokens`.
        progress: Description of a progress bar.
    """
    check_continuations(prompts, continuations)
    tokens = batch_tokens(lm, max_batch_tokens)
    key = ("continuations", tokens, *zip(prompts, continuations, strict=True))
    reading = lm.memo(key, lambda: _continuations(lm, prompts, continuations, tokens))
    values = _score(lm, reading, progress)
    return np.add.reduceat(values, reading.starts) if len(values) else values


@dataclass(frozen=True)
class TextScores:
    """How likely some texts are, and over how many of their tokens."""

    log_p: Float64[np.ndarray, " text"]
    """Natural log, summed over the tokens of a text."""
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
    """log P(text | prompt), where a prompt may be empty: then it is the likelihood of the text.

    What `continuation_log_probs` gives, and how many tokens it is of. Without a prompt, and in a
    model whose texts do not begin with BOS, nothing precedes the first token: it is left out, under
    a preface too, unless that is the chat template within which all texts stand.

    Args:
        lm: The model, with whatever hooks are attached to its bridge.
        prompts: One for each text.
        texts: With their leading space, where there is one.
        asked: A prompt is a user's message in the chat template, and the text the whole reply. Of
            an encoder-decoder model the encoder reads the prompt, and the decoder writes the text.
        max_batch_tokens: Changes speed and memory, not the result; None takes `batch_tokens`.
        progress: Description of a progress bar.
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
    """Refuse prompts and continuations that do not pair.

    Raises:
        UserError: they differ in number.
    """
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
    """Which batches to run for which tokens of which texts; no model's weights are in it."""

    targets: Int[np.ndarray, " token"]
    batches: list[Batch]
    starts: Int[np.ndarray, " text"]
    """Where the tokens of each text begin among all."""


def _reading(
    lm: LanguageModel,
    encodings: Sequence[Encoding],
    spans: Sequence[list[int]],
    max_batch_tokens: int,
) -> _Reading:
    """Read the tokens at `spans`, one after the other. A row's last token is never an input."""
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
    """log P of the tokens that are read, one after the other."""
    values = np.empty(len(reading.targets))
    for batch in track(reading.batches, progress):
        for part, read in within_memory(batch, partial(_read, lm, reading.targets)):
            values[part.slot] = read
    return values


def _read(
    lm: LanguageModel, all_targets: Int[np.ndarray, " token"], batch: Batch
) -> Float64[np.ndarray, " read"]:
    """log softmax at the read positions, normalised once for the reads that share a position."""
    unique: Any = torch.unique
    targets = torch.from_numpy(all_targets[batch.slot])
    cells, cell = unique(torch.stack([batch.row, batch.position]), dim=1, return_inverse=True)
    logits = lm.logits(batch.ids, batch.mask, (cells[0], cells[1]))
    cell, targets = cell.to(logits.device), targets.to(logits.device)
    norm = torch.cat([widen(logits[rows]).logsumexp(-1) for rows in chunks(logits)])
    own = widen(logits[cell, targets])
    values: Float64[np.ndarray, " read"] = (own - norm[cell]).cpu().numpy()
    return values
