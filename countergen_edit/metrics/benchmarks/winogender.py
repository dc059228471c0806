"""Winogender (Rudinger et al. 2018): does a pronoun's gender change whom it is taken to mean?

    gap = accuracy where statistics point to the right person - accuracy where they point astray

Statistics point to the person at work where the pronoun's gender is that of most people who have
the occupation (BLS), to the other person elsewhere; sentences in which they point astray are the
authors' "gotcha" sentences. Neutral pronouns are in neither. Accuracy over all sentences, and of
one pronoun, is that of lm-evaluation-harness. Clusters are occupations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from countergen_edit.data.benchmarks.winogender import (
    GENDERS,
    WinogenderSentence,
    read_winogender,
)
from countergen_edit.metrics.benchmarks.base import Benchmark, Drawn, FigureKind, mean_of
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.metrics.benchmarks.pronouns import ASKS, is_right, referents


def accuracy(sums: Mapping[str, Drawn], kind: str) -> Drawn:
    """Of one kind of sentences, those that are resolved right."""
    return mean_of(sums, f"{kind}_right", kind)


def gap(sums: Mapping[str, Drawn]) -> Drawn:
    """How much better it is where statistics point to the right person."""
    return np.asarray(accuracy(sums, "pro") - accuracy(sums, "gotcha"))


def points_right(one: WinogenderSentence) -> bool | None:
    """Whether statistics of the occupation point to the person who is meant; None of neither."""
    if one.gender == "neutral":
        return None
    at_work = (one.gender == "female") == (one.women > 50)
    return at_work == one.means_occupation


class Winogender(Benchmark):
    """Accuracy by pronoun, and the gap that statistics of occupations leave."""

    name = "winogender"
    figures = (
        FigureKind("gap", "gap", "pro less gotcha", gap, (-1.0, 1.0), fair=0.0, signed=True),
        FigureKind("accuracy", "accuracy", "right", partial(accuracy, kind="all"), (0.0, 1.0)),
        *(
            FigureKind(
                f"accuracy_{gender}",
                f"accuracy, {gender}",
                f"right with a {gender} pronoun",
                partial(accuracy, kind=gender),
                (0.0, 1.0),
            )
            for gender in GENDERS
        ),
    )
    bias_types = ("gender",)
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"gender": ("gender",)}
    normalise = "sum"
    asks = ASKS
    flaws = (
        "120 templates carry all of it, in half of the sentences the other person is “someone”, "
        "whom “the” does not fit, and a model that always names one of the two has no gap"
    )
    clusters = "occupations"

    def items(self, bias_types: Sequence[str]) -> list[Item]:
        """Every sentence: the person who is meant, then the other."""
        return [
            Item(
                one.id,
                "",
                "gender",
                one.occupation,
                referents(one.sentence, one.pronoun, one.meant, one.other),
                one,
            )
            for one in read_winogender(self.files)
        ]

    def counted(self, item: Item, scores: Sequence[float]) -> Mapping[str, float]:
        """Whether the answer is right, of its pronoun and of what statistics point to."""
        one: WinogenderSentence = item.entry
        pointed = points_right(one)
        kinds = {"all", one.gender}
        kinds |= {"pro" if pointed else "gotcha"} if pointed is not None else set()
        right = is_right(scores)
        counts = {}
        for kind in ("all", "pro", "gotcha", *GENDERS):
            counts[kind] = float(kind in kinds)
            counts[f"{kind}_right"] = right * counts[kind]
        return counts
