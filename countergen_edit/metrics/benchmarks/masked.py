"""Benchmarks of masked models: tokens of a text, masked one at a time, as by their authors.

Parts that need another head, such as next-sentence prediction, are left out.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

import numpy as np
import pandas as pd
from jaxtyping import Float64

from countergen_edit.data.benchmarks import Benchmark, BenchmarkItem
from countergen_edit.metrics.benchmarks.figures import counts_of
from countergen_edit.models.masked import MaskedModel, MaskedToken

BLANK = "BLANK"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def masked_items(benchmark: Benchmark, items: Sequence[BenchmarkItem]) -> list[BenchmarkItem]:
    """The items of the parts that masked models are scored on."""
    parts = benchmark.masked.get("parts", ())
    return [item for item in items if not parts or item.part in parts]


def masked_counts(
    model: MaskedModel, benchmark: Benchmark, items: Sequence[BenchmarkItem]
) -> pd.DataFrame:
    """The counts of every item; raises `UserError` beyond the model's context."""
    tokens_of, score = MASKINGS[benchmark.name]
    by_item = [tokens_of(model, item) for item in items]
    flat = [token for texts in by_item for tokens in texts for token in tokens]
    log_p = iter(model.log_probs(flat, progress=f"Scoring {benchmark.name}").tolist())
    scores = [
        [score(np.array([next(log_p) for _ in tokens])) for tokens in texts] for texts in by_item
    ]
    return counts_of(benchmark, items, scores)


def shared_tokens(model: MaskedModel, item: BenchmarkItem) -> list[list[MaskedToken]]:
    """The tokens that both sentences of CrowS-Pairs share, compared as texts as by its authors."""
    sides = [model.tokens(text)[0] for _, text in item.texts]
    more, less = ([*map(str, ids)] for ids in sides)
    blocks = SequenceMatcher(None, more, less).get_matching_blocks()
    shared = [(a + k, b + k) for a, b, size in blocks for k in range(size)][1:-1]
    return [
        [MaskedToken.at(model, ids, pair[side]) for pair in shared]
        for side, ids in enumerate(sides)
    ]


def blank_tokens(model: MaskedModel, item: BenchmarkItem) -> list[list[MaskedToken]]:
    """The tokens of the word that fills the blank of StereoSet, each after those before it."""
    context: str = item.entry["context"]
    place = next(k for k, word in enumerate(context.split(" ")) if BLANK in word)
    start = context.index(BLANK)
    found = []
    for _, sentence in item.texts:
        word = sentence.split(" ")[place].translate(_NO_PUNCTUATION)
        ids, [shown] = model.tokens(context.replace(BLANK, word), (start, start + len(word)))
        after = ids[shown[-1] + 1 :]
        found.append([MaskedToken.at(model, ids[: k + 1] + after, k) for k in shown])
    return found


MASKINGS: dict[
    str,
    tuple[
        Callable[[MaskedModel, BenchmarkItem], list[list[MaskedToken]]],
        Callable[[Float64[np.ndarray, " token"]], float],
    ],
] = {
    "crows_pairs": (shared_tokens, lambda log_p: round(float(log_p.sum()), 3)),
    "stereoset": (blank_tokens, lambda log_p: float(np.exp(log_p).mean())),
}
"""The masked tokens of each text of an item, and a text's score from their log-probabilities."""
