"""What benchmarks ask of masked models: tokens of a text, masked one at a time.

Comes in: items of a benchmark that its authors define for masked models, and such a model. Goes
out: the score of each of an item's texts, by which figures are counted as ever. Parts that need
another head, such as one that tells whether a sentence follows another, are left out.
"""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.benchmarks.stereoset import PARTS, StereoSetItem
from countergen_edit.metrics.benchmarks.base import Benchmark, Counts
from countergen_edit.metrics.benchmarks.crows_pairs import CrowsPairs
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.metrics.benchmarks.stereoset import StereoSet
from countergen_edit.models.masked import MaskedModel, MaskedToken
from countergen_edit.registry import Registry

BLANK = "BLANK"


class Masking(ABC):
    """How a benchmark is asked of masked models."""

    of: ClassVar[type[Benchmark]]
    """The benchmark."""
    asks: ClassVar[str]
    """What is scored, a sentence."""
    parts: ClassVar[tuple[str, ...]] = ()
    """Those that are asked; empty where all are."""

    @abstractmethod
    def tokens(self, model: MaskedModel, item: Item) -> list[list[MaskedToken]]:
        """Of each text of an item, the tokens whose likelihoods it is scored by."""

    @abstractmethod
    def score(self, log_p: Float64[np.ndarray, " token"]) -> float:
        """Of a text, from the log-probabilities of its tokens."""

    def asked(self, items: Sequence[Item]) -> list[Item]:
        """The items that are asked."""
        return [item for item in items if not self.parts or item.part in self.parts]

    def counts(self, model: MaskedModel, benchmark: Benchmark, items: Sequence[Item]) -> Counts:
        """What is counted of every item.

        Raises:
            UserError: a text is longer than the model's context.
        """
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
        return {key: np.array([one[key] for one in own], dtype=np.float64) for key in own[0]}


class MaskedCrowsPairs(Masking):
    """The authors' pseudo-log-likelihood of the tokens that both sentences share."""

    of = CrowsPairs
    asks = (
        "log-probabilities of the tokens that both sentences share, each masked in turn, summed "
        "and, as by its authors, rounded to three decimals"
    )

    def tokens(self, model: MaskedModel, item: Item) -> list[list[MaskedToken]]:
        """Every shared token but the first and the last, which mark a text's ends."""
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
        """The tokens of each word, as they stand in the sentence, without punctuation."""
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
