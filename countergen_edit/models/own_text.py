"""Text about nobody that the model writes itself, which needs no data of anyone's.

Comes in: a model. Goes out: an opening of a natural text and what the model made of it, up to its
last whole sentence. Texts that speak of a person are left out.
"""

from __future__ import annotations

import re

from countergen_edit.data.natural import openings
from countergen_edit.models.generation import generate
from countergen_edit.models.language_model import LanguageModel

_PERSON = re.compile(
    r"\b(he|she|him|her|his|hers|himself|herself|mr|mrs|ms|man|woman|men|women|boy|girl)\b", re.I
)
_SENTENCES = re.compile(r"(?s).*[.!?](?=\s|$)")


def written(
    lm: LanguageModel, seed: int = 0, *, count: int = 165, max_new_tokens: int = 40
) -> list[str]:
    """One text for each of some openings; the same whatever the batch size.

    Args:
        lm: unedited.
        seed: of what is sampled, from the likeliest tokens that hold 90 % of the probability.
        count: how many openings, evenly from all kinds of text.
        max_new_tokens: longest continuation of an opening.
    """
    every = openings()
    prompts = [every[i * len(every) // count] for i in range(count)]
    made = generate(
        lm,
        prompts,
        max_new_tokens=max_new_tokens,
        do_sample=True,
        top_p=0.9,
        seed=seed,
        progress="Writing neutral text",
    )
    texts = []
    for prompt, continuation in zip(prompts, made, strict=True):
        text = " ".join(f"{prompt}{continuation}".split())
        whole = _SENTENCES.match(text)
        texts.append(whole[0] if whole else text)
    return [text for text in texts if not _PERSON.search(text)]
