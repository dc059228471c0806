"""What every benchmark is: items of which texts are scored, and the figures that they make.

A benchmark is one file: what it reads, which texts of an item are scored, what of an item is
counted, which figures the counts make, which cluster an item belongs to, and what is known to be
wrong with it. Whoever measures, tests and shows asks these questions and knows no benchmark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float64

from countergen_edit.data.benchmarks import Files
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.bench import Bench
from countergen_edit.metrics.benchmarks.items import Item
from countergen_edit.metrics.benchmarks.kept import scored
from countergen_edit.models import Asked, LanguageModel, lengths
from countergen_edit.registry import Registry

Normalise = Literal["sum", "mean"]
"""Whether a text counts by the log-probability of all its tokens, or by their mean."""
Drawn = Float64[np.ndarray, " resample"]
Counts = Mapping[str, Float64[np.ndarray, " item"]]
"""What is counted, each of every item."""
ALL = "all"
"""The bias type of figures over all of them."""
LONGEST = 20
"""Texts of each benchmark whose length is checked before anything runs."""


@dataclass(frozen=True)
class FigureKind:
    """A figure that papers print, as a function of what is counted over items."""

    name: str
    title: str
    says: str
    """What it is, a few words."""
    of: Callable[[Mapping[str, Drawn]], Drawn]
    """From the sums of each count over items, in every resample."""
    within: tuple[float, float]
    fair: float | None = None
    """The value of a model without bias; None where more is better, unless it is `plain`."""
    parts: tuple[str, ...] = ()
    """The parts that it is of; empty where it is of each."""
    signed: bool = False
    plain: bool = False
    """Whether neither more nor less of it is better."""
    groups: tuple[str, ...] = ()
    """The groups of items that it is of, all of which are needed; empty where it is of any."""
    needs: str = ""
    """A count of 0 or 1 of each item: it is of items that have it, if most do; empty where of
    any."""
    blind: str = ""
    """The figure that it would be of a model to which the groups are alike."""
    tested: str = ""
    """Names figures whose P of being fair are adjusted together; empty where an interval says it"""


@dataclass(frozen=True)
class Printed:
    """A figure of a part that stands in tables of papers."""

    figure: str
    title: str
    part: str = ""


class Benchmark(ABC):
    """A benchmark of the field.

    Args:
        files: where its data are; None where only what it says of itself is asked.
    """

    name: ClassVar[str]
    """In config and rows, and of its `Source`."""
    figures: ClassVar[tuple[FigureKind, ...]]
    bias_types: ClassVar[tuple[str, ...]]
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The bias types that are about an axis."""
    normalise: ClassVar[Normalise]
    """As its authors score texts, or else as `why` says."""
    asks: ClassVar[str]
    """What is scored, a sentence."""
    flaws: ClassVar[str]
    """What is known to be wrong with it, a sentence."""
    clusters: ClassVar[str]
    """What a cluster is, in the plural."""
    printed: ClassVar[tuple[Printed, ...]] = ()
    """What of it stands in tables of papers, in order."""
    usual: ClassVar[bool] = False
    """Whether it stands there as a dash where it was not measured."""
    alike: ClassVar[bool] = False
    """Whether every cluster counts alike, however many items it has."""
    people: ClassVar[str] = ""
    """Where texts that people wrote are from, of which the same figures stand beside a model's."""
    is_generating: ClassVar[bool] = False
    """Whether it takes nothing but what a model writes."""
    is_answered: ClassVar[bool] = False
    """Whether every item is a question, and its texts are replies to it."""

    def __init__(self, files: Files) -> None:
        self.files = files

    @abstractmethod
    def items(self, bias_types: Sequence[str]) -> list[Item]:
        """The items about some bias types, read from the files.

        Raises:
            UserError: a file is not there, or is not what was published.
        """

    def doubled(self, item: Item, swap: Callable[[str], str]) -> Item:
        """The item, with texts of the other group beside its own where it takes them.

        Args:
            item: of `items`, of a bias type that is about the audited axis.
            swap: gives a text with the audited groups swapped.
        """
        return item

    @abstractmethod
    def counted(self, item: Item, scores: Sequence[float]) -> Mapping[str, float]:
        """What is counted of an item.

        Args:
            item: of `items`, or `doubled`.
            scores: of each of its texts, higher where it is likelier.
        """

    def counts(
        self, bench: Bench, edit: NamedEdit | None, items: Sequence[Item], normalise: Normalise
    ) -> Counts:
        """What is counted of every item under an edit: by the likelihood of its texts."""
        of_texts = scored(bench, edit, self.name, items)
        mean = normalise == "mean"
        values = of_texts.log_p / of_texts.tokens if mean else of_texts.log_p
        ends = np.cumsum([len(item.texts) for item in items])
        own = [
            self.counted(item, some.tolist())
            for item, some in zip(items, np.split(values, ends[:-1]), strict=True)
        ]
        return {key: np.array([one[key] for one in own], dtype=np.float64) for key in own[0]}

    def by_people(self, items: Sequence[Item]) -> Counts:
        """What is counted of every item in what people wrote; nothing where there is none."""
        return {}

    def check(self, model: LanguageModel, items: Sequence[Item]) -> None:
        """Find a text that is longer than the model's context, as far as length shows it.

        Raises:
            UserError: there is one.
        """
        texts = {prompt + text for item in items for prompt, text in item.texts}
        lengths(model, sorted(texts, key=len)[-LONGEST:])

    def asked(self, items: Sequence[Item]) -> Asked:
        """What is asked of a model: every text of the items."""
        return Asked(scored=tuple(pair for item in items for pair in item.texts))

    def figures_of(self, part: str) -> list[FigureKind]:
        """The figures of a part, in order."""
        return [figure for figure in self.figures if part in figure.parts or not figure.parts]


def mean_of(sums: Mapping[str, Drawn], key: str, per: str = "items") -> Drawn:
    """How much of a count there is in another, in every resample; NaN where there is none."""
    return np.asarray(sums[key] / sums[per], dtype=np.float64)


BENCHMARKS: Registry[type[Benchmark]] = Registry(
    "benchmark",
    "countergen_edit.benchmarks",
    {
        "stereoset": "countergen_edit.metrics.benchmarks.stereoset:StereoSet",
        "crows_pairs": "countergen_edit.metrics.benchmarks.crows_pairs:CrowsPairs",
        "bbq": "countergen_edit.metrics.benchmarks.bbq:Bbq",
        "winobias": "countergen_edit.metrics.benchmarks.winobias:WinoBias",
        "winogender": "countergen_edit.metrics.benchmarks.winogender:Winogender",
        "bold": "countergen_edit.metrics.benchmarks.bold:Bold",
    },
    Benchmark,
)
"""Every benchmark by its name in config; one's own enters with `@BENCHMARKS.register("mine")`."""
