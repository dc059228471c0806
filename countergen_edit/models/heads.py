"""Models of `transformers` with a head: what classifiers share, and masked language models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from countergen_edit.core.errors import UserError
from countergen_edit.models.language_model import require_finite, weights_hash
from countergen_edit.models.progress import track
from countergen_edit.models.scoring import to_float64


@dataclass(frozen=True, eq=False)
class HeadModel:
    """A `transformers` model with a head, put in eval mode, and its tokenizer."""

    batch_tokens: ClassVar[int] = 8192
    """Most tokens run together."""
    name: str
    hf_model: Any
    tokenizer: Any

    def __post_init__(self) -> None:
        self.hf_model.requires_grad_(False).eval()

    def logits(
        self, rows: Sequence[Mapping[str, Sequence[int]]], progress: str | None = None
    ) -> Iterator[tuple[list[int], Tensor]]:
        """The head's logits of encoded texts, those of similar length together, by their numbers.

        `UserError` if they are not finite.
        """
        lengths = [len(row["input_ids"]) for row in rows]
        batches: list[list[int]] = []
        for i in sorted(range(len(rows)), key=lambda i: -lengths[i]):
            if not batches or (len(batches[-1]) + 1) * lengths[batches[-1][0]] > self.batch_tokens:
                batches.append([])
            batches[-1].append(i)
        for batch in track(batches, progress):
            padded = self.tokenizer.pad([dict(rows[i]) for i in batch], return_tensors="pt")
            padded = padded.to(self.hf_model.device)
            with torch.inference_mode():
                logits = self.hf_model(**padded).logits
            require_finite(logits, padded["input_ids"].__getitem__, self, self.hf_model.dtype)
            yield batch, logits

    @cached_property
    def fingerprint(self) -> str:
        return weights_hash(self.hf_model)


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
    """A masked language model; `UserError` if its tokenizer has no mask or character offsets."""

    batch_tokens = 2048  # its head has logits of every token

    def __post_init__(self) -> None:
        super().__post_init__()
        whose = f"the tokenizer of {self.name}"
        if self.tokenizer.mask_token_id is None:
            raise UserError(f"{whose} has no mask token: give a masked language model")
        if not self.tokenizer.is_fast:
            raise UserError(f"{whose} is slow and has no character offsets")

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
