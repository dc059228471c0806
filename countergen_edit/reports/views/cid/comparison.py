"""Two prompts side by side: what each is continued with, by λ, its tokens coloured by Δ.

Comes in: two prompts and the values of λ. Goes out: a table. Refused: prompts that are equal, a λ
below 0, a K beyond the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from countergen_edit.models import Contrasted, LanguageModel, contrastive_generate, token_texts
from countergen_edit.reports.blocks import Table, Tokens

LEGEND = (
    "Green: likelier after this prompt than after the other; red: less likely. The figure: how far "
    "apart the two next-token distributions were, Jensen–Shannon, nats a token."
)


def comparison(
    model: LanguageModel,
    prompts: tuple[str, str],
    strengths: Sequence[float],
    *,
    title: str = "Side by side",
    max_new_tokens: int = 24,
    top_k: int = 50,
    sentence: bool = True,
) -> Table:
    """A row for each λ, a column for each prompt.

    Args:
        model: the model, edited or not.
        prompts: x and x'; each is continued with what is unlikely after the other.
        strengths: the values of λ.
        title: of the table.
        max_new_tokens: longest continuation.
        top_k: how many of the likeliest tokens CID chooses from.
        sentence: whether a continuation ends with its sentence.

    Raises:
        UserError: the prompts are equal, or a setting is out of range.
    """
    own = [prompt for _ in strengths for prompt in prompts]
    other = [prompt for _ in strengths for prompt in prompts[::-1]]
    texts = contrastive_generate(
        model,
        own,
        other,
        [strength for strength in strengths for _ in prompts],
        max_new_tokens=max_new_tokens,
        top_k=top_k,
        sentence=sentence,
    )
    cells = [_coloured(model, prompt, text) for prompt, text in zip(own, texts, strict=True)]
    return Table(
        "cid_comparison",
        title,
        ("λ", *(f"{prompt} …" for prompt in prompts)),
        tuple((f"{s:g}", *cells[2 * i : 2 * i + 2]) for i, s in enumerate(strengths)),
        LEGEND,
        brief=True,
    )


def _coloured(model: LanguageModel, prompt: str, text: Contrasted) -> Tokens:
    """The tokens of a continuation with their Δ, and its divergence."""
    pieces = tuple(token_texts(model, prompt, text.tokens))
    return Tokens(pieces, text.delta, f"{float(np.mean(text.divergence)):.4f}")
