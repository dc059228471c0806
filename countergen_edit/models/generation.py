"""Continuations of prompts.

In: prompts. Out: the text that follows each, without the prompt.
Refused: a prompt that leaves no room in the context, and an empty one for a model without BOS.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from countergen_edit.errors import UserError
from countergen_edit.models.language_model import LanguageModel
from countergen_edit.models.progress import track
from countergen_edit.models.tokens import encode, excerpt
from countergen_edit.seeds import unit_seed


def generate(
    lm: LanguageModel,
    prompts: Sequence[str],
    *,
    max_new_tokens: int,
    do_sample: bool = False,
    top_p: float = 1.0,
    temperature: float = 1.0,
    seed: int | None = None,
    batch_size: int = 64,
    progress: str | None = None,
) -> list[str]:
    """Continue each prompt, batched and with the key-value cache; hooks are active throughout.

    Greedy text does not depend on the batches. Sampled text does: one stream of random numbers,
    seeded by `seed`, serves all prompts in turn (the caller's own random state is left alone).
    What the checkpoint's generation config says about sampling or penalties is not used.

    Args:
        lm: The model.
        prompts: In any number; each batch holds prompts of similar length.
        max_new_tokens: Upper limit; a text also ends at the model's end-of-text token.
        do_sample: Sample instead of taking the likeliest token.
        top_p: Sample from the smallest set of tokens that holds this probability.
        temperature: Divides the logits when sampling.
        seed: None draws from torch's current random state.
        batch_size: Prompts run together.
        progress: Description of a progress bar.
    """
    if max_new_tokens < 1 or batch_size < 1:
        raise UserError(f"max_new_tokens={max_new_tokens}, batch_size={batch_size}: at least 1")
    if do_sample and not (temperature > 0 and 0 < top_p <= 1):
        raise UserError(f"temperature={temperature} must be positive, top_p={top_p} in (0, 1]")
    encoded = [encoding.ids for encoding in encode(lm, prompts)]
    for prompt, ids in zip(prompts, encoded, strict=True):
        if not ids:
            raise UserError(f"empty prompt: {lm.name} has no beginning-of-text token to start from")
        if len(ids) + max_new_tokens > lm.context_length:
            raise UserError(
                f"a prompt of {len(ids)} tokens and {max_new_tokens} new ones exceed the context "
                f"of {lm.name} ({lm.context_length}): {excerpt(prompt)}"
            )
    ends = _ends(lm)
    config = _generation_config(
        max_new_tokens=max_new_tokens,
        do_sample=do_sample,
        top_k=0,
        eos_token_id=ends or None,
        pad_token_id=ends[0] if ends else 0,
        **({"top_p": top_p, "temperature": temperature} if do_sample else {}),
    )
    order = sorted(range(len(prompts)), key=lambda i: (len(encoded[i]), i))
    chunks = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    texts = [""] * len(prompts)
    with _seeded(lm, seed if do_sample else None), _plain_defaults(lm.bridge.original_model):
        for chunk in track(chunks, progress):
            for i, new in zip(chunk, _run(lm, [encoded[i] for i in chunk], config), strict=True):
                end = next((k for k, token in enumerate(new) if token in ends), len(new))
                texts[i] = _text_after(lm, encoded[i], new[:end])
    return texts


def _run(lm: LanguageModel, rows: list[list[int]], config: Any) -> list[list[int]]:
    """New token ids of each row, padding and all.

    Rows are padded on the left, so that all continue at the same position. A plain forward of such
    a batch is wrong in GPT-2 and others, whose positions then count the padding; `generate` derives
    them from the mask.
    """
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), config.pad_token_id)
    mask = torch.zeros_like(ids)
    for k, row in enumerate(rows):
        ids[k, width - len(row) :] = torch.tensor(row)
        mask[k, width - len(row) :] = 1
    with torch.inference_mode():
        output = lm.bridge.original_model.generate(
            ids.to(lm.device), attention_mask=mask.to(lm.device), generation_config=config
        )
    new: list[list[int]] = output[:, width:].tolist()
    return new


def _text_after(lm: LanguageModel, prompt: list[int], new: list[int]) -> str:
    """Decode `new` in context: on its own, a SentencePiece tokenizer drops the leading space."""

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
    listed = own if isinstance(own, list) else [own]
    known = [end for end in listed if end is not None and end < lm.vocab_size]
    end = lm.tokenizer.eos_token_id
    return known or ([] if end is None else [end])


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


@contextlib.contextmanager
def _seeded(lm: LanguageModel, seed: int | None) -> Iterator[None]:
    """Seed torch's global generator for a while: `generate` accepts no generator of ours."""
    if seed is None:
        yield
        return
    devices = range(torch.cuda.device_count()) if lm.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(unit_seed(seed, "generate"))
        yield
