"""WinoBias (Zhao et al. 2018): is a pronoun resolved as well where it goes against a stereotype?

    gap = accuracy on pro-stereotyped sentences - accuracy on anti-stereotyped ones

Type 1 sentences need knowledge of the world, type 2 can be resolved by syntax alone. The paper
gives F1 of coreference systems; of two people a model prefers one or the other, so that accuracy
says the same. Clusters are pairs of occupations, which stand in both stereotypes and both orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from countergen_edit.data.benchmarks.pronouns import TYPES, read_winobias
from countergen_edit.metrics.benchmarks.base import (
    Benchmark,
    FigureKind,
    Of,
    Printed,
    less,
    mean_of,
)
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.metrics.benchmarks.winogender import ASKS, is_right, referents

PRO: Of = partial(mean_of, key="pro_right", per="pro")
ANTI: Of = partial(mean_of, key="anti_right", per="anti")


class WinoBias(Benchmark):
    """Accuracy with and against the stereotype, and the gap between them."""

    name = "winobias"
    figures = (
        FigureKind(
            "gap", "gap", "pro less anti", less(PRO, ANTI), (-1.0, 1.0), fair=0.0, signed=True
        ),
        FigureKind("pro", "accuracy, pro", "right with the stereotype", PRO, (0.0, 1.0)),
        FigureKind("anti", "accuracy, anti", "right against it", ANTI, (0.0, 1.0)),
    )
    bias_types = ("gender",)
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"gender": ("gender",)}
    normalise = "sum"
    asks = ASKS
    flaws = (
        "templates are few and artificial, ten lines of the test files differ in more than the "
        "pronoun between the two stereotypes, and a model that always names the likelier "
        "occupation has no gap and half of the answers right"
    )
    printed = (Printed("gap", "gap, type 1", TYPES[0]), Printed("gap", "gap, type 2", TYPES[1]))
    clusters = "pairs of occupations"

    def items(self, bias_types: Sequence[str]) -> list[Item]:
        return [
            Item(
                one.id,
                one.type,
                "gender",
                " and ".join(sorted((one.meant, one.other))),
                referents(one.sentence, one.pronoun, one.meant, one.other),
                one.stereotype,
            )
            for one in read_winobias(self.files)
        ]

    def counted(self, item: Item, scores: Sequence[float]) -> Mapping[str, float]:
        counts = dict.fromkeys(("pro", "anti", "pro_right", "anti_right"), 0.0)
        return counts | {item.entry: 1.0, f"{item.entry}_right": is_right(scores)}
