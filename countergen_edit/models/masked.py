"""Masked language models: associations (Kurita et al. 2019) and likelihoods."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.models.encoders import HeadModel
from countergen_edit.models.scoring import to_float64

Span = tuple[int, int]
"""Characters of a text."""


@dataclass(frozen=True)
class MaskedText:
    """A text with the spans of its target and its attribute."""

    text: str
    target: Span
    attribute: Span


@dataclass(frozen=True)
class MaskedToken:
    """A token that is masked at `place` in `ids` and predicted from the others."""

    ids: tuple[int, ...]
    place: int
    token: int

    @classmethod
    def at(
        cls, model: MaskedModel, ids: Sequence[int], place: int, also: Collection[int] = ()
    ) -> MaskedToken:
        """The token at a place, masked; those `also` masked are not predicted."""
        mask, hidden = model.tokenizer.mask_token_id, {place, *also}
        masked = tuple(mask if k in hidden else token for k, token in enumerate(ids))
        return cls(masked, place, ids[place])


@dataclass(frozen=True, eq=False)
class MaskedModel(HeadModel):
    """A masked language model and its tokenizer."""

    batch_tokens = 2048  # its head has logits of every token

    def encoded(self, texts: Sequence[MaskedText]) -> tuple[list[dict[str, list[int]]], list[int]]:
        """Model inputs of each text, unmasked, and the place of its target.

        `UserError` for a target of several tokens.
        """
        ids, targets, _ = zip(*map(self._places, texts), strict=True)
        return [{"input_ids": row} for row in ids], [*targets]

    def associations(self, texts: Sequence[MaskedText]) -> Float64[np.ndarray, " text"]:
        """log p(target | attribute) - log p(target | attribute masked), nats (Kurita et al. 2019).

        An attribute of several tokens is masked by as many masks; `UserError` for such a target.
        """
        tokens = [
            MaskedToken.at(self, ids, target, also)
            for ids, target, attribute in map(self._places, texts)
            for also in ((), attribute)
        ]
        known, masked = self.log_probs(tokens).reshape(-1, 2).T
        return np.asarray(known - masked, dtype=np.float64)

    def answers(self, texts: Sequence[MaskedText]) -> Int[np.ndarray, " text"]:
        """The likeliest token at the first token of each masked attribute."""
        masked = [
            MaskedToken.at(self, ids, attribute[0], attribute)
            for ids, _, attribute in map(self._places, texts)
        ]
        guesses = np.zeros(len(texts), dtype=np.int64)
        for batch, logits in self._logits(masked):
            guesses[batch] = logits.argmax(-1).cpu().numpy()
        return guesses

    def log_probs(
        self, tokens: Sequence[MaskedToken], *, progress: str | None = None
    ) -> Float64[np.ndarray, " token"]:
        """log p of every masked token, in nats; `UserError` beyond the context."""
        room = min(self.tokenizer.model_max_length, self.hf_model.config.max_position_embeddings)
        longest = max((len(token.ids) for token in tokens), default=0)
        if longest > room:
            raise UserError(
                f"a text of {longest} tokens exceeds the context of {self.name} ({room})"
            )
        values = np.zeros(len(tokens))
        for batch, logits in self._logits(tokens, progress):
            log_p = to_float64(logits).log_softmax(-1)
            targets = [tokens[i].token for i in batch]
            values[batch] = log_p[range(len(batch)), targets].cpu().numpy()
        return values

    def _logits(
        self, tokens: Sequence[MaskedToken], progress: str | None = None
    ) -> Iterator[tuple[list[int], Float[Tensor, "some vocab"]]]:
        """The logits at the places of some masked tokens after others, by their numbers."""
        rows = [{"input_ids": [*token.ids]} for token in tokens]
        for batch, logits in self.logits(rows, progress):
            yield batch, logits[range(len(batch)), [tokens[i].place for i in batch]]

    def tokens(self, text: str, *spans: Span) -> tuple[list[int], list[list[int]]]:
        """The token ids of a text, special ones included, and the places that overlap each span."""
        table = self.tokenizer(text, return_offsets_mapping=True, verbose=False)
        places = [
            [k for k, (a, b) in enumerate(table["offset_mapping"]) if a < end and b > begin]
            for begin, end in spans
        ]
        return list(table["input_ids"]), places

    def _places(self, text: MaskedText) -> tuple[list[int], int, list[int]]:
        """The tokens of a text, and the places of its target and of its attribute."""
        ids, (target, attribute) = self.tokens(text.text, text.target, text.attribute)
        if len(target) != 1:
            raise UserError(
                f"target {text.text[slice(*text.target)]!r} is {len(target)} tokens for "
                f"{self.name}: a mask holds one; choose another word"
            )
        return ids, target[0], attribute


def masked_from_objects(name: str, hf_model: Any, tokenizer: Any) -> MaskedModel:
    """Wrap a masked language model in memory.

    `UserError` if the tokenizer has no mask token or no character offsets.
    """
    if tokenizer.mask_token_id is None:
        raise UserError(f"the tokenizer of {name} has no mask token: give a masked language model")
    if not tokenizer.is_fast:
        raise UserError(f"the tokenizer of {name} is slow and has no character offsets")
    return MaskedModel(name, hf_model, tokenizer)
