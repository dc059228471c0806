"""Masked language models: associations of a target with an attribute (Kurita et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import UserError
from countergen_edit.models.heads import HeadModel
from countergen_edit.models.scoring import to_float64

Span = tuple[int, int]
"""Characters of a text."""


@dataclass(frozen=True)
class MaskedText:
    """A text with the spans of its target and its attribute."""

    text: str
    target: Span
    attribute: Span


@dataclass(frozen=True, eq=False)
class MaskedModel(HeadModel):
    """A masked language model and its tokenizer."""

    batch_tokens = 2048  # its head has logits of every token

    def associations(self, texts: Sequence[MaskedText]) -> Float64[np.ndarray, " text"]:
        """log p(target | attribute) - log p(target | attribute masked), nats (Kurita et al. 2019).

        An attribute of several tokens is masked by as many masks. `UserError` for a target of
        several tokens, or a text beyond the context.
        """
        room = min(self.tokenizer.model_max_length, self.hf_model.config.max_position_embeddings)
        mask, rows, targets = self.tokenizer.mask_token_id, [], []
        for ids, target, attribute in map(self._places, texts):
            if len(ids) > room:
                raise UserError(
                    f"a text of {len(ids)} tokens exceeds the context of {self.name} ({room})"
                )
            for masked in ({target}, {target, *attribute}):
                row = [mask if k in masked else token for k, token in enumerate(ids)]
                rows.append({"input_ids": row})
                targets.append((target, ids[target]))
        values = np.zeros(len(rows))
        for batch, logits in self.logits(rows):
            places, tokens = zip(*(targets[i] for i in batch), strict=True)
            log_p = to_float64(logits[range(len(batch)), places]).log_softmax(-1)
            values[batch] = log_p[range(len(batch)), tokens].cpu().numpy()
        known, unknown = values.reshape(-1, 2).T
        return np.asarray(known - unknown, dtype=np.float64)

    def _places(self, text: MaskedText) -> tuple[list[int], int, list[int]]:
        """The token ids of a text, the place of its target, and those of its attribute."""
        table = self.tokenizer(text.text, return_offsets_mapping=True, verbose=False)
        target, attribute = (
            [k for k, (a, b) in enumerate(table["offset_mapping"]) if a < end and b > begin]
            for begin, end in (text.target, text.attribute)
        )
        if len(target) != 1:
            raise UserError(
                f"target {text.text[slice(*text.target)]!r} is {len(target)} tokens for "
                f"{self.name}: a mask holds one; choose another word"
            )
        return list(table["input_ids"]), target[0], attribute


def masked_from_objects(name: str, hf_model: Any, tokenizer: Any) -> MaskedModel:
    """Wrap a masked language model in memory.

    `UserError` if the tokenizer has no mask token or no character offsets.
    """
    if tokenizer.mask_token_id is None:
        raise UserError(f"the tokenizer of {name} has no mask token: give a masked language model")
    if not tokenizer.is_fast:
        raise UserError(f"the tokenizer of {name} is slow and has no character offsets")
    return MaskedModel(name, hf_model, tokenizer)
