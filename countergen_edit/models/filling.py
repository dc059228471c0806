"""What a masked language model would write in a gap of a text.

In: texts with one gap each. Out: for each the likeliest whole words, with their probabilities.
Refused: a text that exceeds the model's context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from countergen_edit.errors import UserError
from countergen_edit.models.masked import MaskedModel
from countergen_edit.models.tokens import excerpt

MARGIN = 8
"""Tokens looked at for each word wanted, because many are parts of words or marks."""


@dataclass(frozen=True)
class Gap:
    """A text with something missing between its two parts."""

    before: str
    after: str

    def filled(self, word: str) -> str:
        """The text with a word in its gap."""
        return f"{self.before}{word}{self.after}"


def fillings(model: MaskedModel, gaps: Sequence[Gap], count: int) -> list[list[tuple[str, float]]]:
    """The likeliest words of every gap, likeliest first, each with its probability.

    A token counts as a word where it is made of letters and the filled text, read by the tokenizer,
    holds that token in the gap: so a part of a word never passes for one.

    Args:
        model: A masked language model.
        gaps: The texts.
        count: At most so many words for each.

    Raises:
        UserError: a text is longer than the model can read.
    """
    from transformers import FillMaskPipeline

    tokenizer = model.tokenizer
    masked = [gap.filled(tokenizer.mask_token) for gap in gaps]
    longest = getattr(model.hf_model.config, "max_position_embeddings", None)
    for text in masked:
        if longest is not None and len(_ids(model, text)) > longest:
            raise UserError(f"{excerpt(text)} exceeds the {longest} tokens that {model.name} reads")
    top = min(MARGIN * count, model.hf_model.config.vocab_size)
    fill = FillMaskPipeline(model=model.hf_model, tokenizer=tokenizer, top_k=top)
    found = []
    for gap, text in zip(gaps, masked, strict=True):
        hidden = _ids(model, text)
        words: dict[str, float] = {}
        for candidate in fill(text):
            token = int(candidate["token"])
            word = tokenizer.decode([token]).strip()
            holds = [token if i == tokenizer.mask_token_id else i for i in hidden]
            if word.isalpha() and _ids(model, gap.filled(word)) == holds:
                words.setdefault(word, float(candidate["score"]))
        found.append([*words.items()][:count])
    return found


def _ids(model: MaskedModel, text: str) -> list[int]:
    ids: list[int] = model.tokenizer(text, verbose=False)["input_ids"]
    return ids
