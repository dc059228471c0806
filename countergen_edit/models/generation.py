"""Continuations of prompts, sampled reproducibly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, singledispatch
from itertools import count
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import unit_seed
from countergen_edit.models.language_model import LanguageModel, RowScores, TokenIds, require_finite
from countergen_edit.models.memory import reduced, within_memory
from countergen_edit.models.progress import track
from countergen_edit.models.tokens import encode, encode_replies, excerpt


def generate(
    lm: LanguageModel,
    prompts: Sequence[str],
    *,
    chat: bool = False,
    max_new_tokens: int,
    do_sample: bool = False,
    top_p: float = 1.0,
    temperature: float = 1.0,
    seed: int = 0,
    batch_size: int = 64,
    progress: str | None = None,
) -> list[str]:
    """Continue each prompt, batched and with the key-value cache; attached hooks are active.

    A text depends neither on the batch size nor on the order: each row samples from random numbers
    of its own, named by `seed`, the prompt and how often the prompt came before, so that edits are
    compared on the same numbers. The checkpoint's generation config is not used for sampling.

    Returns the text after each prompt, which also ends at the model's end-of-text token. With
    `chat`, prompts are a user's messages in the chat template and texts the replies. `do_sample`
    samples from the smallest set of tokens with probability `top_p`, after the logits are divided
    by `temperature`, instead of taking the likeliest token. `UserError` if a setting is out of
    range, or a prompt is empty for a model without BOS or leaves no room in the context.
    """
    if max_new_tokens < 1 or batch_size < 1:
        raise UserError(f"max_new_tokens={max_new_tokens}, batch_size={batch_size}: at least 1")
    if do_sample and not (temperature > 0 and 0 < top_p <= 1):
        raise UserError(f"temperature={temperature} must be positive, top_p={top_p} in (0, 1]")
    sampling = Sampling(max_new_tokens, do_sample, top_p, temperature, seed)
    return sample_texts(lm, prompts, chat, sampling, batch_size, progress)


@dataclass(frozen=True)
class Sampling:
    """The settings of `generate` on which a text depends."""

    max_new_tokens: int
    do_sample: bool
    top_p: float
    temperature: float
    seed: int


@singledispatch
def sample_texts(
    lm: LanguageModel,
    prompts: Sequence[str],
    chat: bool,
    sampling: Sampling,
    batch_size: int,
    progress: str | None,
) -> list[str]:
    """`generate`, by the kind of model."""
    encodings = encode_replies(lm, prompts, [""] * len(prompts)) if chat else encode(lm, prompts)
    rows = [encoding.ids for encoding in encodings]
    for prompt, ids in zip(prompts, rows, strict=True):
        check_room(lm, prompt, ids, sampling.max_new_tokens)
    ends = end_tokens(lm)
    seeds = row_seeds(sampling.seed, prompts)
    order = sorted(range(len(prompts)), key=lambda i: len(rows[i]))

    def run() -> list[str]:
        size = reduced(lm, "text", batch_size)
        chunks = [order[i : i + size] for i in range(0, len(order), size)]
        texts = [""] * len(prompts)
        for chunk in track(chunks, progress):
            seed = [seeds[i] for i in chunk]
            sampler = RowSampler(seed, top_p=sampling.top_p, temperature=sampling.temperature)
            processors = [sampler] if sampling.do_sample else []
            batch = [rows[i] for i in chunk]
            continuations = new_tokens(lm, batch, sampling.max_new_tokens, ends, processors)
            for i, new in zip(chunk, continuations, strict=True):
                texts[i] = text_after(lm, rows[i], new[:-1] if new[-1] in ends else new)
        return texts

    return within_memory(lm, "text", run)


def check_room(lm: LanguageModel, prompt: str, ids: Sequence[int], max_new_tokens: int) -> None:
    """Raise a `UserError` for an empty prompt or one without room for new tokens."""
    if not ids:
        raise UserError(f"empty prompt: {lm.name} has no beginning-of-text token to start from")
    if max_new_tokens > lm.context_length - (0 if lm.is_encoder_decoder else len(ids)):
        raise UserError(
            f"a prompt of {len(ids)} tokens and {max_new_tokens} new ones exceed the context "
            f"of {lm.name} ({lm.context_length}): {excerpt(prompt)}"
        )


def row_seeds(seed: int, prompts: Sequence[str]) -> list[int]:
    """A seed for each prompt, by how often the prompt came before."""
    counts: defaultdict[str, Iterator[int]] = defaultdict(count)
    return [unit_seed(seed, "generate", prompt, next(counts[prompt])) for prompt in prompts]


def new_tokens(
    lm: LanguageModel,
    rows: list[list[int]],
    max_new_tokens: int,
    stops: Collection[int],
    processors: list[Any],
) -> list[list[int]]:
    """New token ids of each row through the first of `stops`, by `transformers`.

    Decoding is greedy, as a sampling processor leaves one token to choose from. Rows are padded on
    the left, those of an encoder, which counts positions from the left, on the right.
    """
    from transformers import GenerationConfig

    ends = end_tokens(lm)
    model = lm.bridge.original_model
    defaults = model.generation_config  # `generate` would fill every gap from it
    # An encoder-decoder model names the token that its decoder begins with.
    configs = (defaults, model.config) if lm.is_encoder_decoder else ()
    keys = ("decoder_start_token_id", "bos_token_id")
    starts = [getattr(config, key, None) for config in configs for key in keys]
    config = GenerationConfig(  # type: ignore[no-untyped-call]
        max_new_tokens=max_new_tokens,
        do_sample=False,
        eos_token_id=sorted(stops) or None,
        pad_token_id=ends[0] if ends else 0,
        decoder_start_token_id=next((start for start in starts if start is not None), None),
    )
    side = "right" if lm.is_encoder_decoder else "left"
    pad = partial(pad_sequence, batch_first=True, padding_side=side)
    ids = pad([torch.tensor(row) for row in rows], padding_value=config.pad_token_id)
    mask = pad([torch.ones(len(row), dtype=torch.long) for row in rows])

    def finite(seen: Tensor, logits: Tensor) -> Tensor:
        require_finite(logits, rows.__getitem__, lm, model.dtype)
        return logits

    try:
        model.generation_config = type(defaults)()
        with torch.inference_mode():
            output = model.generate(
                ids.to(lm.device),
                attention_mask=mask.to(lm.device),
                generation_config=config,
                logits_processor=[finite, *processors],
            )
    finally:
        model.generation_config = defaults
    new = output[:, 1 if lm.is_encoder_decoder else ids.shape[1] :].tolist()
    lengths = (next((k for k, token in enumerate(row, 1) if token in stops), None) for row in new)
    return [row[:length] for row, length in zip(new, lengths, strict=True)]


def text_after(lm: LanguageModel, prompt: list[int], new: list[int]) -> str:
    """Decode `new` in context: alone, SentencePiece drops the leading space."""
    how = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
    decode = partial(lm.tokenizer.decode, **how)
    before, joint = decode(prompt), decode(prompt + new)
    # A prompt that ends within a character decodes differently once that is complete.
    return str(joint[len(before) :] if joint.startswith(before) else decode(new))


def end_tokens(lm: LanguageModel) -> list[int]:
    """The model's end-of-text tokens within its vocabulary, else the tokenizer's."""
    ends = lm.bridge.original_model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    # A handmade config often keeps its family's default, beyond a small vocabulary.
    valid = [end for end in ends if end is not None and end < lm.vocab_size]
    end = lm.tokenizer.eos_token_id
    return valid or ([] if end is None else [end])


_CPU_AT_ONCE, _ACCELERATOR_AT_ONCE = 1 << 20, 1 << 24
"""Logits sampled together; a CPU is faster while they stay in its cache."""
_STEP = 0x632BE59BD9B4E019
_TOKEN, *_MIX = (
    word - (1 << 64)  # as a signed integer
    for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class RowSampler:
    """Nucleus sampling as a logits processor; each row has its own random numbers.

    The token is the argmax of logit + Gumbel noise, redrawn while outside the nucleus: an exact
    sample from p restricted to it (Gumbel 1954; Maddison et al. 2014), without sorting.
    `temperature` divides the logits; `top_p` = 1 samples from all tokens.
    """

    def __init__(self, seeds: Sequence[int], *, top_p: float, temperature: float) -> None:
        self.seeds = torch.tensor(seeds, dtype=torch.long)
        self.top_p = top_p
        self.temperature = temperature
        self.step = 0

    def __call__(self, input_ids: TokenIds, scores: RowScores) -> RowScores:
        """Logits of 0 for each row's sampled token and minus infinity elsewhere."""
        self.seeds = self.seeds.to(scores.device)
        at_once = _CPU_AT_ONCE if scores.device.type == "cpu" else _ACCELERATOR_AT_ONCE
        rows = max(1, at_once // scores.shape[-1])
        parts = zip(torch.split(scores, rows), torch.split(self.seeds, rows), strict=True)
        token = torch.cat([self._sampled(part.float(), seeds) for part, seeds in parts])
        self.step += 1
        return torch.full_like(scores, -torch.inf, dtype=torch.float32).scatter_(1, token, 0.0)

    def _sampled(self, scores: RowScores, seeds: Int[Tensor, " row"]) -> Int[Tensor, "row 1"]:
        scores = scores / self.temperature
        noisy = gumbel(seeds, self.step, scores.shape[-1]).add_(scores)
        token = noisy.argmax(-1, keepdim=True)
        if self.top_p < 1:
            p = scores.softmax(-1)
            waiting = torch.arange(len(p), device=p.device)
            while True:
                p_row = p[waiting]
                above = p_row * (p_row > p_row.gather(1, token[waiting]))
                waiting = waiting[above.sum(-1) >= self.top_p]  # outside the nucleus: draw again
                if not len(waiting):
                    break
                noisy[waiting, token[waiting, 0]] = -torch.inf
                token[waiting] = noisy[waiting].argmax(-1, keepdim=True)
        return token


def gumbel(seeds: Int[Tensor, " row"], step: int, tokens: int) -> Float[Tensor, "row token"]:
    """Standard Gumbel noise of seed, step and token, by SplitMix64 (Steele et al. 2014)."""
    token = torch.arange(tokens, device=seeds.device) * _TOKEN
    x = (seeds + step * _STEP % 2**62)[:, None] + token
    for shift, factor in zip((30, 27), _MIX, strict=True):
        x ^= (x >> shift).bitwise_and_((1 << (64 - shift)) - 1)  # unsigned, as the words are
        x *= factor
    x ^= (x >> 31).bitwise_and_((1 << 33) - 1)
    # The upper 31 bits as a uniform. Its small values make the large noise, which decides, and
    # float32 holds small ones to full precision.
    u = (x >> 33).bitwise_and_(0x7FFFFFFF).float().add_(0.5).mul_(2.0**-31)
    return u.clamp_(max=1 - 2.0**-24).neg_().log1p_().neg_().log_().neg_()
