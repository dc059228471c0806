"""Masked language models: how much likelier a word becomes once its context is known.

In: texts with one slot for a target and words for an attribute. Out: Kurita et al.'s (2019)
association `log p(target | attribute) - log p(target | attribute masked)`, in nats. Refused: a
model without mask token, a target of several tokens, which one mask cannot hold.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from countergen_edit.errors import UserError
from countergen_edit.models.encoders import Encoder, Hooks
from countergen_edit.models.float64 import widen
from countergen_edit.models.language_model import weights_hash
from countergen_edit.models.loading import Head, load_head
from countergen_edit.models.progress import track

HEAD = Head(
    "masked language model",
    "…ForMaskedLM",
    "AutoModelForMaskedLM",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
)
ROWS = 128  # texts run together


@dataclass(frozen=True)
class MaskedText:
    """A text whose target is to be masked, and whose attribute may be; spans are characters."""

    text: str
    target: tuple[int, int]
    attribute: tuple[int, int]


@dataclass(frozen=True)
class MaskedToken:
    """A token of a text, which is masked and predicted from the others."""

    ids: tuple[int, ...]
    """Of the whole text, the mask in its place."""
    place: int
    token: int

    @classmethod
    def at(cls, model: MaskedModel, ids: Sequence[int], place: int) -> MaskedToken:
        """The token at a place."""
        mask = model.tokenizer.mask_token_id
        return cls((*ids[:place], mask, *ids[place + 1 :]), place, ids[place])


@dataclass(frozen=True, eq=False)
class MaskedModel:
    """A masked language model and its tokenizer."""

    name: str
    hf_model: Any
    tokenizer: Any

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of config and weights."""
        return weights_hash(self.hf_model)

    @functools.cached_property
    def encoder(self) -> Encoder:
        """What edits attach to; with one attached the model predicts as edited."""
        return Encoder(self.name, Hooks(self.name, self.hf_model), self.tokenizer)

    def encoded(self, texts: Sequence[MaskedText]) -> tuple[list[dict[str, list[int]]], list[int]]:
        """What the model is given of each text, nothing masked, and where its target stands.

        Raises:
            UserError: a target is more than one token.
        """
        rows, at = [], []
        for text in texts:
            ids, place, target = self._masked(text, hide_attribute=False)
            ids[place] = target
            rows.append({"input_ids": ids})
            at.append(place)
        return rows, at

    def associations(
        self, texts: Sequence[MaskedText], *, progress: str | None = None
    ) -> Float64[np.ndarray, " text"]:
        """log p(target | attribute) - log p(target | attribute masked), for every text.

        An attribute of several tokens is masked by as many masks.

        Raises:
            UserError: a target is more than one token.
        """
        rows, wanted, at = [], [], []
        for text in texts:
            for hidden in (False, True):
                ids, place, target = self._masked(text, hidden)
                rows.append(ids)
                at.append(place)
                wanted.append(target)
        values = np.zeros(len(rows))
        for some, logits in self._logits(rows, at, progress):
            of = torch.tensor([wanted[i] for i in some])
            log_p = widen(logits).log_softmax(-1)[torch.arange(len(some)), of]
            values[some.start : some.stop] = log_p.cpu().numpy()
        known, masked = values.reshape(-1, 2).T
        return np.asarray(known - masked, dtype=np.float64)

    def guesses(self, texts: Sequence[MaskedText]) -> Int[np.ndarray, " text"]:
        """The likeliest token where the first of a text's attribute is masked."""
        rows, at = [], []
        for text in texts:
            ids, [places] = self._tokens(text.text, [text.attribute])
            for k in places:
                ids[k] = self.tokenizer.mask_token_id
            rows.append(ids)
            at.append(places[0])
        found = np.zeros(len(rows), dtype=np.int64)
        for some, logits in self._logits(rows, at):
            found[some.start : some.stop] = logits.argmax(-1).cpu().numpy()
        return found

    def ids(self, text: str) -> list[int]:
        """The tokens of a text, with what the tokenizer puts at its ends."""
        return self._tokens(text, ())[0]

    def shown(self, text: str, span: tuple[int, int]) -> tuple[list[int], list[int]]:
        """The same, and the places of the tokens that show some characters of it."""
        ids, [places] = self._tokens(text, [span])
        return ids, places

    def log_probs(
        self, tokens: Sequence[MaskedToken], *, progress: str | None = None
    ) -> Float64[np.ndarray, " token"]:
        """log p of every token where it is masked, in nats.

        Raises:
            UserError: a text is longer than the model's context.
        """
        room = min(self.tokenizer.model_max_length, self.hf_model.config.max_position_embeddings)
        longest = max((len(token.ids) for token in tokens), default=0)
        if longest > room:
            raise UserError(
                f"a text of {longest} tokens exceeds the context of {self.name} ({room})"
            )
        # Of similar length together, so that little is padding; what is read depends on neither.
        order = sorted(range(len(tokens)), key=lambda i: (len(tokens[i].ids), i))
        rows, at = [list(tokens[i].ids) for i in order], [tokens[i].place for i in order]
        values = np.zeros(len(tokens))
        for some, logits in self._logits(rows, at, progress):
            own = [order[k] for k in some]
            of = torch.tensor([tokens[i].token for i in own])
            log_p = widen(logits).log_softmax(-1)[torch.arange(len(own)), of]
            values[own] = log_p.cpu().numpy()
        return values

    def _logits(
        self, rows: Sequence[list[int]], at: Sequence[int], progress: str | None = None
    ) -> Iterator[tuple[range, Float[Tensor, "some vocab"]]]:
        """Of some texts after others, the logits at one token of each."""
        for begin in track(range(0, len(rows), ROWS), progress):
            some = range(begin, min(begin + ROWS, len(rows)))
            batch = self.tokenizer.pad({"input_ids": [rows[i] for i in some]}, return_tensors="pt")
            with torch.inference_mode():
                logits = self.hf_model(**batch.to(self.hf_model.device)).logits
            yield some, logits[torch.arange(len(some)), torch.tensor([at[i] for i in some])]

    def _masked(self, text: MaskedText, hide_attribute: bool) -> tuple[list[int], int, int]:
        """Token ids with the target masked, where that mask is, and the target's token."""
        ids, (places, hidden) = self._tokens(text.text, (text.target, text.attribute))
        if len(places) != 1:
            target = text.text[slice(*text.target)]
            raise UserError(
                f"target {target!r} is {len(places)} tokens for {self.name}: a mask holds one; "
                "choose another word"
            )
        [place] = places
        token = ids[place]
        for k in (place, *(hidden if hide_attribute else ())):
            ids[k] = self.tokenizer.mask_token_id
        return ids, place, token

    def _tokens(
        self, text: str, spans: Sequence[tuple[int, int]]
    ) -> tuple[list[int], list[list[int]]]:
        """Token ids of a text, and of each span the places of the tokens that show it."""
        table = self.tokenizer(text, return_offsets_mapping=True, verbose=False)
        places = [
            [k for k, (a, b) in enumerate(table["offset_mapping"]) if a < end and b > begin]
            for begin, end in spans
        ]
        return list(table["input_ids"]), places


def load_masked(
    model: str | Path, *, device: str = "auto", dtype: str = "float32", revision: str | None = None
) -> MaskedModel:
    """Load a masked language model by hub id or directory, under the checks of `load`."""
    hf_model, tokenizer = load_head(HEAD, model, device=device, dtype=dtype, revision=revision)
    return masked_from_objects(str(model), hf_model, tokenizer)


def masked_from_objects(name: str, hf_model: Any, tokenizer: Any) -> MaskedModel:
    """Wrap a masked language model in memory.

    Raises:
        UserError: the tokenizer has no mask token or no character offsets.
    """
    if tokenizer.mask_token_id is None:
        raise UserError(f"the tokenizer of {name} has no mask token: give a masked language model")
    if not tokenizer.is_fast:
        raise UserError(f"the tokenizer of {name} is slow and has no character offsets")
    return MaskedModel(name, hf_model.requires_grad_(False).eval(), tokenizer)
