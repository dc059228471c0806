"""Benchmarks of masked models: tokens of a text, masked one at a time, as by their authors.

Parts that need another head, such as next-sentence prediction, are left out.
"""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.benchmarks.sentences import PARTS, StereoSetItem
from countergen_edit.metrics.benchmarks.base import Benchmark, Counts, stack_counts
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.models.masked import MaskedModel, MaskedToken

BLANK = "BLANK"


class Masking(ABC):
    """Scoring of a benchmark's texts by a masked model, in some `parts` or in all."""

    scoring: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def tokens(self, model: MaskedModel, item: Item) -> list[list[MaskedToken]]:
        """The masked tokens of each text of an item."""

    @abstractmethod
    def score(self, log_p: Float64[np.ndarray, " token"]) -> float:
        """The score of a text, from the log-probabilities of its tokens."""

    def select(self, items: Sequence[Item]) -> list[Item]:
        """The items of the scored parts."""
        return [item for item in items if not self.parts or item.part in self.parts]

    def counts(self, model: MaskedModel, benchmark: Benchmark, items: Sequence[Item]) -> Counts:
        """The counts of every item; raises `UserError` beyond the model's context."""
        by_item = [self.tokens(model, item) for item in items]
        flat = [token for texts in by_item for tokens in texts for token in tokens]
        log_p = iter(model.log_probs(flat, progress=f"Scoring {benchmark.name}").tolist())
        counts = []
        for item, texts in zip(items, by_item, strict=True):
            scores = [self.score(np.array([next(log_p) for _ in tokens])) for tokens in texts]
            counts.append(benchmark.count(item, scores))
        return stack_counts(counts)


class MaskedCrowsPairs(Masking):
    """The authors' pseudo-log-likelihood of the tokens that both sentences share."""

    scoring = (
        "log-probabilities of the tokens that both sentences share, each masked in turn, summed "
        "and, as by its authors, rounded to three decimals"
    )

    def tokens(self, model: MaskedModel, item: Item) -> list[list[MaskedToken]]:
        more, less = (model.ids(text) for _, text in item.texts)
        # As by the authors, tokens are compared as texts.
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

    def score(self, log_p: Float64[np.ndarray, " token"]) -> float:
        return round(float(log_p.sum()), 3)


class MaskedStereoSet(Masking):
    """The authors' mean probability of the tokens of the word that fills the blank."""

    scoring = (
        "mean probability of the tokens of the word that fills the blank, each at a mask after "
        "those before it; between sentences nothing is measured, as that takes a next-sentence head"
    )
    parts = (PARTS[0],)

    def tokens(self, model: MaskedModel, item: Item) -> list[list[MaskedToken]]:
        one: StereoSetItem = item.entry
        place = next(k for k, word in enumerate(one.context.split(" ")) if BLANK in word)
        start = one.context.index(BLANK)
        found = []
        for sentence in one.sentences:
            word = sentence.split(" ")[place].translate(_NO_PUNCTUATION)
            text = one.context.replace(BLANK, word)
            ids, shown = model.shown(text, (start, start + len(word)))
            found.append(
                [MaskedToken.at(model, ids[: k + 1] + ids[shown[-1] + 1 :], k) for k in shown]
            )
        return found

    def score(self, log_p: Float64[np.ndarray, " token"]) -> float:
        return float(np.exp(log_p).mean())


_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
MASKINGS: dict[str, Masking] = {
    "crows_pairs": MaskedCrowsPairs(),
    "stereoset": MaskedStereoSet(),
}
