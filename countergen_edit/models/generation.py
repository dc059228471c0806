"""Continuations of prompts.

In: prompts. Out: the text that follows each, without the prompt; of an encoder-decoder model, the
text that its decoder writes. Refused: a prompt that leaves no room in the context, and an empty one
for a model without BOS.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any

import torch

from countergen_edit.errors import UserError
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import track
from countergen_edit.models.sampling import RowSampler
from countergen_edit.models.tokens import encode, encode_replies, excerpt
from countergen_edit.seeds import unit_seed


@singledispatch
def generate(
    lm: LanguageModel,
    prompts: Sequence[str],
    *,
    asked: bool = False,
    max_new_tokens: int,
    do_sample: bool = False,
    top_p: float = 1.0,
    temperature: float = 1.0,
    seed: int = 0,
    batch_size: int = 64,
    progress: str | None = None,
) -> list[str]:
    """Continue each prompt, batched and with the key-value cache; hooks are active throughout.

    The text depends on no batch size and on no order: each row samples from its own random numbers,
    named by `seed`, the prompt, and how often it came before in `prompts`. So the k-th sample of a
    prompt is the same whatever other prompts there are, and under an edit it is drawn with the same
    numbers.
    What the checkpoint's generation config says about sampling or penalties is not used.

    Args:
        lm: The model.
        prompts: In any number; each batch holds prompts of similar length. A prompt that stands
            there n times is continued n times.
        asked: A prompt is a user's message in the chat template, and the text the reply.
        max_new_tokens: Upper limit; a text also ends at the model's end-of-text token.
        do_sample: Sample instead of taking the likeliest token.
        top_p: Sample from the smallest set of tokens that holds this probability.
        temperature: Divides the logits when sampling.
        seed: The run's seed.
        batch_size: Prompts run together.
        progress: Description of a progress bar.
    """
    check_sampling(max_new_tokens, batch_size, do_sample, top_p, temperature)
    nothing = [""] * len(prompts)
    encodings = encode_replies(lm, prompts, nothing) if asked else encode(lm, prompts)
    encoded = [encoding.ids for encoding in encodings]
    for prompt, ids in zip(prompts, encoded, strict=True):
        if not ids:
            raise UserError(f"empty prompt: {lm.name} has no beginning-of-text token to start from")
        room = lm.context_length - (0 if lm.is_encoder_decoder else len(ids))
        if max_new_tokens > room:
            raise UserError(
                f"a prompt of {len(ids)} tokens and {max_new_tokens} new ones exceed the context "
                f"of {lm.name} ({lm.context_length}): {excerpt(prompt)}"
            )
    ends = _ends(lm)
    config = _generation_config(
        max_new_tokens=max_new_tokens,
        do_sample=False,  # the sampler leaves one token to choose from
        eos_token_id=ends or None,
        pad_token_id=ends[0] if ends else 0,
        decoder_start_token_id=decoder_start(lm),
    )
    seeds = _row_seeds(seed, prompts)
    order = sorted(range(len(prompts)), key=lambda i: (len(encoded[i]), i))
    chunks = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    texts = [""] * len(prompts)
    with _plain_defaults(lm.bridge.original_model):
        for chunk in track(chunks, progress):
            samplers = [RowSampler([seeds[i] for i in chunk], top_p=top_p, temperature=temperature)]
            rows = _run(lm, [encoded[i] for i in chunk], config, samplers if do_sample else [])
            for i, new in zip(chunk, rows, strict=True):
                end = next((k for k, token in enumerate(new) if token in ends), len(new))
                texts[i] = _text_after(lm, encoded[i], new[:end])
    return texts


def check_sampling(
    max_new_tokens: int, batch_size: int, do_sample: bool, top_p: float, temperature: float
) -> None:
    """Refuse settings of `generate` that are out of range.

    Raises:
        UserError: naming them.
    """
    if max_new_tokens < 1 or batch_size < 1:
        raise UserError(f"max_new_tokens={max_new_tokens}, batch_size={batch_size}: at least 1")
    if do_sample and not (temperature > 0 and 0 < top_p <= 1):
        raise UserError(f"temperature={temperature} must be positive, top_p={top_p} in (0, 1]")


def _row_seeds(seed: int, prompts: Sequence[str]) -> list[int]:
    occurrences: Counter[str] = Counter()
    seeds = []
    for prompt in prompts:
        seeds.append(unit_seed(seed, "generate", prompt, occurrences[prompt]))
        occurrences[prompt] += 1
    return seeds


def _run(
    lm: LanguageModel, rows: list[list[int]], config: Any, processors: list[Any]
) -> list[list[int]]:
    """New token ids of each row, padding and all.

    Rows are padded on the left, so that all continue at the same position. A plain forward of such
    a batch is wrong in GPT-2 and others, whose positions then count the padding; `generate` derives
    them from the mask. An encoder is padded on the right: it counts positions from the left, and
    the decoder starts anew.
    """
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), config.pad_token_id)
    mask = torch.zeros_like(ids)
    for k, row in enumerate(rows):
        start = 0 if lm.is_encoder_decoder else width - len(row)
        ids[k, start : start + len(row)] = torch.tensor(row)
        mask[k, start : start + len(row)] = 1
    with torch.inference_mode():
        output = lm.bridge.original_model.generate(
            ids.to(lm.device),
            attention_mask=mask.to(lm.device),
            generation_config=config,
            logits_processor=processors,
        )
    new: list[list[int]] = output[:, 1 if lm.is_encoder_decoder else width :].tolist()
    return new


def _text_after(lm: LanguageModel, prompt: list[int], new: list[int]) -> str:
    """Decode `new` in context: on its own, a SentencePiece tokenizer drops the leading space.

    So a prompt and its text join to what the model read and wrote, also where a decoder wrote what
    an encoder's prompt goes on to say.
    """

    def decode(ids: list[int]) -> str:
        text: str = lm.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    before, joint = decode(prompt), decode(prompt + new)
    # A prompt that ends within a character decodes differently once the character is complete.
    return joint[len(before) :] if joint.startswith(before) else decode(new)


def _ends(lm: LanguageModel) -> list[int]:
    """The tokens that end a text: the model's, else the tokenizer's.

    A config made by hand often keeps its family's default, which lies beyond a small vocabulary.
    """
    own = lm.bridge.original_model.generation_config.eos_token_id
    ends = own if isinstance(own, list) else [own]
    valid = [end for end in ends if end is not None and end < lm.vocab_size]
    end = lm.tokenizer.eos_token_id
    return valid or ([] if end is None else [end])


def decoder_start(lm: LanguageModel) -> int | None:
    """The token a decoder begins with; None in a causal model."""
    model = lm.bridge.original_model
    for config in (model.generation_config, model.config):
        for key in ("decoder_start_token_id", "bos_token_id"):
            start = getattr(config, key, None)
            if lm.is_encoder_decoder and start is not None:
                return int(start)
    return None


def _generation_config(**settings: Any) -> Any:
    from transformers import GenerationConfig  # late: transformers is slow to import

    return GenerationConfig(**settings)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _plain_defaults(model: Any) -> Iterator[None]:
    """Set the checkpoint's generation config aside: `generate` fills every gap from it."""
    own = model.generation_config
    model.generation_config = _generation_config()
    try:
        yield
    finally:
        model.generation_config = own
