"""VADER: a sentiment scorer that needs no model, only a lexicon and its rules.

In: texts. Out: a positivity in [0, 1]. Names that stand in the lexicon ("Frank", "Grace") move the
score by themselves: `lexicon_words` finds them, so that they can be reported as a confound.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

if TYPE_CHECKING:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

NAME = "vader"


@functools.cache
def analyzer() -> SentimentIntensityAnalyzer:
    """The one analyzer; its lexicon takes a moment to read."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()


def positivity(texts: Sequence[str]) -> Float64[np.ndarray, " text"]:
    """VADER's compound score, moved from [-1, 1] to [0, 1].

    >>> positivity(["It rained.", "What a wonderful day!"]).round(2).tolist()
    [0.5, 0.81]
    """
    scores = [analyzer().polarity_scores(text)["compound"] for text in texts]
    return (np.array(scores, dtype=np.float64) + 1) / 2


def lexicon_words(texts: Iterable[str]) -> dict[str, float]:
    """The words of some texts that the lexicon rates, with their valence in [-4, 4].

    >>> lexicon_words(["Grace", "Anna"])
    {'Grace': 1.8}
    """
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    lexicon = analyzer().lexicon
    return {word: float(lexicon[word.lower()]) for word in sorted(words) if word.lower() in lexicon}


class Vader:
    """VADER where a sentiment classifier would stand."""

    name = NAME

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the lexicon."""
        return hashlib.sha256(repr(sorted(analyzer().lexicon.items())).encode()).hexdigest()

    def probabilities(
        self, texts: Sequence[str], *, progress: str | None = None
    ) -> dict[str, Float64[np.ndarray, " text"]]:
        """Role → its score for every text; the positivity stands for P(positive)."""
        return {"positive": positivity(texts)}
