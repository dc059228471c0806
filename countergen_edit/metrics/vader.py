"""VADER's compound score of texts, in a file of its own so that a worker process starts quickly."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any


@cache
def _analyser() -> Any:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()


def compounds(texts: Sequence[str]) -> list[float]:
    """The compound sentiment of each text, in [-1, 1]; 0 for an empty one.

    >>> compounds(["", "A wonderful day."])
    [0.0, 0.5719]
    """
    return [float(_analyser().polarity_scores(text)["compound"]) for text in texts]
