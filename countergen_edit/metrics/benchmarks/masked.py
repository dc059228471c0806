"""Benchmarks of masked models: tokens of a text, masked one at a time, as by their authors.

Parts that need another head, such as next-sentence prediction, are left out.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.benchmarks import description
from countergen_edit.metrics.benchmarks.base import Benchmark, Counts
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.models.masked import MaskedModel, MaskedToken

BLANK = "BLANK"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Masking:
    """Scoring of a benchmark's texts by a masked model."""

    tokens: Callable[[MaskedModel, Item], list[list[MaskedToken]]]
    """The masked tokens of each text of an item."""
    score: Callable[[Float64[np.ndarray, " token"]], float]
    """The score of a text, from the log-probabilities of its tokens."""
    scoring: str
    """What is scored, in a sentence."""
    parts: Sequence[str] = ()
    """Parts of the benchmark that are scored; empty for all."""

    def select(self, items: Sequence[Item]) -> list[Item]:
        """The items of the scored parts."""
        return [item for item in items if not self.parts or item.part in self.parts]

    def counts(self, model: MaskedModel, benchmark: Benchmark, items: Sequence[Item]) -> Counts:
        """The counts of every item; raises `UserError` beyond the model's context."""
        by_item = [self.tokens(model, item) for item in items]
        flat = [token for texts in by_item for tokens in texts for token in tokens]
        log_p = iter(model.log_probs(flat, progress=f"Scoring {benchmark.name}").tolist())
        scores = [
            [self.score(np.array([next(log_p) for _ in tokens])) for tokens in texts]
            for texts in by_item
        ]
        return benchmark.counts(items, scores)


def shared_tokens(model: MaskedModel, item: Item) -> list[list[MaskedToken]]:
    """The tokens that both sentences of CrowS-Pairs share, compared as texts as by its authors."""
    more, less = (model.tokens(text)[0] for _, text in item.texts)
    blocks = SequenceMatcher(None, list(map(str, more)), list(map(str, less))).get_opcodes()
    shared = [
        pair
        for kind, a, b, c, d in blocks
        if kind == "equal"
        for pair in zip(range(a, b), range(c, d), strict=True)
    ][1:-1]
    return [
        [MaskedToken.at(model, ids, pair[side]) for pair in shared]
        for side, ids in enumerate((more, less))
    ]


def blank_tokens(model: MaskedModel, item: Item) -> list[list[MaskedToken]]:
    """The tokens of the word that fills the blank of StereoSet, each after those before it."""
    context: str = item.entry
    place = next(k for k, word in enumerate(context.split(" ")) if BLANK in word)
    start = context.index(BLANK)
    found = []
    for _, sentence in item.texts:
        word = sentence.split(" ")[place].translate(_NO_PUNCTUATION)
        ids, [shown] = model.tokens(context.replace(BLANK, word), (start, start + len(word)))
        after = ids[shown[-1] + 1 :]
        found.append([MaskedToken.at(model, ids[: k + 1] + after, k) for k in shown])
    return found


MASKINGS = {
    "crows_pairs": Masking(
        shared_tokens,
        lambda log_p: round(float(log_p.sum()), 3),
        **description("crows_pairs")["masked"],
    ),
    "stereoset": Masking(
        blank_tokens,
        lambda log_p: float(np.exp(log_p).mean()),
        **description("stereoset")["masked"],
    ),
}
