"""Masked language models: associations (Kurita et al. 2019) and likelihoods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.models.encoders import HeadModel
from countergen_edit.models.loading import load_head
from countergen_edit.models.progress import track
from countergen_edit.models.scoring import to_float64

ROWS = 128  # texts run together


@dataclass(frozen=True)
class MaskedText:
    """A text with character spans of its target and its attribute."""

    text: str
    target: tuple[int, int]
    attribute: tuple[int, int]


@dataclass(frozen=True)
class MaskedToken:
    """A token that is masked at `place` in `ids` and predicted from the others."""

    ids: tuple[int, ...]
    place: int
    token: int

    @classmethod
    def at(cls, model: MaskedModel, ids: Sequence[int], place: int) -> MaskedToken:
        mask = model.tokenizer.mask_token_id
        return cls((*ids[:place], mask, *ids[place + 1 :]), place, ids[place])


@dataclass(frozen=True, eq=False)
class MaskedModel(HeadModel):
    """A masked language model and its tokenizer."""

    def encoded(self, texts: Sequence[MaskedText]) -> tuple[list[dict[str, list[int]]], list[int]]:
        """Model inputs of each text, unmasked, and the place of its target.

        `UserError` for a target of several tokens.
        """
        targets = [self._target(text, hide_attribute=False) for text in texts]
        rows = [[*t.ids[: t.place], t.token, *t.ids[t.place + 1 :]] for t in targets]
        return [{"input_ids": ids} for ids in rows], [target.place for target in targets]

    def associations(self, texts: Sequence[MaskedText]) -> Float64[np.ndarray, " text"]:
        """log p(target | attribute) - log p(target | attribute masked), nats (Kurita et al. 2019).

        An attribute of several tokens is masked by as many masks; `UserError` for such a target.
        """
        targets = [self._target(text, hidden) for text in texts for hidden in (False, True)]
        known, masked = self._log_p(targets).reshape(-1, 2).T
        return np.asarray(known - masked, dtype=np.float64)

    def guesses(self, texts: Sequence[MaskedText]) -> Int[np.ndarray, " text"]:
        """The likeliest token at the first token of each masked attribute."""
        masked = []
        for text in texts:
            ids, [places] = self._tokens(text.text, [text.attribute])
            hidden = [self.tokenizer.mask_token_id if k in places else t for k, t in enumerate(ids)]
            masked.append(MaskedToken(tuple(hidden), places[0], ids[places[0]]))
        parts = [logits.argmax(-1).cpu().numpy() for _, logits in self._logits(masked)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    def ids(self, text: str) -> list[int]:
        """The tokens of a text, special ones included."""
        return self._tokens(text, ())[0]

    def shown(self, text: str, span: tuple[int, int]) -> tuple[list[int], list[int]]:
        """The same, and the places of the tokens that overlap a span."""
        ids, [places] = self._tokens(text, [span])
        return ids, places

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
        # Of similar length together, so that little is padding; results depend on neither.
        order = sorted(range(len(tokens)), key=lambda i: (len(tokens[i].ids), i))
        values = np.zeros(len(tokens))
        values[order] = self._log_p([tokens[i] for i in order], progress)
        return values

    def _log_p(
        self, tokens: Sequence[MaskedToken], progress: str | None = None
    ) -> Float64[np.ndarray, " token"]:
        parts = [np.zeros(0)]
        for some, logits in self._logits(tokens, progress):
            log_p = to_float64(logits).log_softmax(-1)
            parts.append(log_p[torch.arange(len(some)), [t.token for t in some]].cpu().numpy())
        return np.concatenate(parts)

    def _logits(
        self, tokens: Sequence[MaskedToken], progress: str | None = None
    ) -> Iterator[tuple[Sequence[MaskedToken], Float[Tensor, "some vocab"]]]:
        """Some masked tokens after others, with the logits at their places."""
        for begin in track(range(0, len(tokens), ROWS), progress):
            some = tokens[begin : begin + ROWS]
            ids = [list(token.ids) for token in some]
            batch = self.tokenizer.pad({"input_ids": ids}, return_tensors="pt")
            with torch.inference_mode():
                logits = self.logits(batch)
            yield some, logits[torch.arange(len(some)), [token.place for token in some]]

    def _target(self, text: MaskedText, hide_attribute: bool) -> MaskedToken:
        """The target of a text, masked, and the attribute with it if hidden."""
        ids, (places, attribute) = self._tokens(text.text, (text.target, text.attribute))
        if len(places) != 1:
            target = text.text[slice(*text.target)]
            raise UserError(
                f"target {target!r} is {len(places)} tokens for {self.name}: a mask holds one; "
                "choose another word"
            )
        [place] = places
        hidden = {place, *(attribute if hide_attribute else ())}
        mask = self.tokenizer.mask_token_id
        masked = tuple(mask if k in hidden else token for k, token in enumerate(ids))
        return MaskedToken(masked, place, ids[place])

    def _tokens(
        self, text: str, spans: Sequence[tuple[int, int]]
    ) -> tuple[list[int], list[list[int]]]:
        """Token ids of a text, and the places of the tokens that overlap each span."""
        table = self.tokenizer(text, return_offsets_mapping=True, verbose=False)
        places = [
            [k for k, (a, b) in enumerate(table["offset_mapping"]) if a < end and b > begin]
            for begin, end in spans
        ]
        return list(table["input_ids"]), places


def load_masked(model: str | Path, **where: Any) -> MaskedModel:
    """Load a masked language model; `where` holds device, dtype and revision as for `load`."""
    hf_model, tokenizer = load_head("masked language model", model, **where)
    return masked_from_objects(str(model), hf_model, tokenizer)


def masked_from_objects(name: str, hf_model: Any, tokenizer: Any) -> MaskedModel:
    """Wrap a masked language model in memory.

    `UserError` if the tokenizer has no mask token or no character offsets.
    """
    if tokenizer.mask_token_id is None:
        raise UserError(f"the tokenizer of {name} has no mask token: give a masked language model")
    if not tokenizer.is_fast:
        raise UserError(f"the tokenizer of {name} is slow and has no character offsets")
    return MaskedModel(name, hf_model.requires_grad_(False).eval(), tokenizer)
