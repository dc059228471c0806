"""Models of `transformers` with a head: classifiers and masked language models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from countergen_edit.models.language_model import require_finite, weights_hash
from countergen_edit.models.progress import track


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
            require_finite(logits, partial(_only, padded), self.hf_model, self)
            yield batch, logits

    @cached_property
    def fingerprint(self) -> str:
        return weights_hash(self.hf_model)


def _only(inputs: Mapping[str, Tensor], i: int) -> dict[str, Tensor]:
    return {key: value[[i]] for key, value in inputs.items()}
