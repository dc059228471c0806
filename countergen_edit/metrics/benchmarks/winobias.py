"""WinoBias (Zhao et al. 2018): pronoun resolution with and against a stereotype.

    gap = accuracy on pro-stereotyped sentences - accuracy on anti-stereotyped ones

Type 1 sentences need world knowledge, type 2 can be resolved by syntax. The paper gives F1 of
coreference systems; between two people a model always prefers one, so that accuracy says the same.
Clusters are pairs of occupations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from countergen_edit.data.benchmarks.pronouns import read_winobias
from countergen_edit.metrics.benchmarks.base import Benchmark, FigureKind, less, ratio
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.metrics.benchmarks.winogender import SCORING, is_right, referents

PRO, ANTI = ratio("pro_right", "pro"), ratio("anti_right", "anti")


class WinoBias(Benchmark):
    """Accuracy with and against the stereotype, and the gap between them."""

    name = "winobias"
    figures = (
        FigureKind("gap", "gap", "pro less anti", less(PRO, ANTI), fair=0.0, signed=True),
        FigureKind("pro", "accuracy, pro", "right with the stereotype", PRO),
        FigureKind("anti", "accuracy, anti", "right against it", ANTI),
    )
    bias_types = ("gender",)
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"gender": ("gender",)}
    normalise = "sum"
    scoring = SCORING
    flaws = (
        "templates are few and artificial, ten lines of the test files differ in more than the "
        "pronoun between the two stereotypes, and a model that always names the likelier "
        "occupation has no gap and half of the answers right"
    )
    clusters = "pairs of occupations"

    def items(self, bias_types: Sequence[str]) -> list[Item]:
        items = []
        for one in read_winobias(self.files):
            cluster = " and ".join(sorted((one.meant, one.other)))
            texts = referents(one.sentence, one.pronoun, one.meant, one.other)
            items.append(Item(one.id, one.type, "gender", cluster, texts, one.stereotype))
        return items

    def count(self, item: Item, scores: Sequence[float]) -> Mapping[str, float]:
        counts = dict.fromkeys(("pro", "anti", "pro_right", "anti_right"), 0.0)
        return counts | {item.entry: 1.0, f"{item.entry}_right": is_right(scores)}
