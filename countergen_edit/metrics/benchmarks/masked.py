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

from countergen_edit.core.registry import Registry
from countergen_edit.data.benchmarks.sentences import PARTS, StereoSetItem
from countergen_edit.metrics.benchmarks.base import Benchmark, Counts, by_count
from countergen_edit.metrics.benchmarks.crows_pairs import CrowsPairs
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.metrics.benchmarks.stereoset import StereoSet
from countergen_edit.models.masked import MaskedModel, MaskedToken

BLANK = "BLANK"


class Masking(ABC):
    """How a benchmark, `of`, is asked of masked models: what is scored, and of which `parts`."""

    of: ClassVar[type[Benchmark]]
    asks: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def tokens(self, model: MaskedModel, item: Item) -> list[list[MaskedToken]]:
        """The tokens that each text of an item is scored by."""

    @abstractmethod
    def score(self, log_p: Float64[np.ndarray, " token"]) -> float:
        """Of a text, from the log-probabilities of its tokens."""

    def asked(self, items: Sequence[Item]) -> list[Item]:
        """The items of the parts that are asked."""
        return [item for item in items if not self.parts or item.part in self.parts]

    def counts(self, model: MaskedModel, benchmark: Benchmark, items: Sequence[Item]) -> Counts:
        """What is counted of every item; `UserError` beyond the model's context."""
        of_items = [self.tokens(model, item) for item in items]
        flat = [token for texts in of_items for tokens in texts for token in tokens]
        log_p = iter(model.log_probs(flat, progress=f"Scoring {benchmark.name}").tolist())
        own = [
            benchmark.counted(
                item,
                [self.score(np.array([next(log_p) for _ in tokens])) for tokens in texts],
            )
            for item, texts in zip(items, of_items, strict=True)
        ]
        return by_count(own)


class MaskedCrowsPairs(Masking):
    """The authors' pseudo-log-likelihood of the tokens that both sentences share."""

    of = CrowsPairs
    asks = (
        "log-probabilities of the tokens that both sentences share, each masked in turn, summed "
        "and, as by its authors, rounded to three decimals"
    )

    def tokens(self, model: MaskedModel, item: Item) -> list[list[MaskedToken]]:
        more, less = (model.ids(text) for _, text in item.texts)
        # Texts stand there as by the authors: tokens as words of a list, compared as such.
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

    of = StereoSet
    asks = (
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

MASKINGS: Registry[type[Masking]] = Registry(
    "benchmark of masked models",
    "countergen_edit.maskings",
    {
        "crows_pairs": "countergen_edit.metrics.benchmarks.masked:MaskedCrowsPairs",
        "stereoset": "countergen_edit.metrics.benchmarks.masked:MaskedStereoSet",
    },
    Masking,
)
"""How benchmarks are asked of masked models, by their names."""
