"""What a benchmark is: items, the texts of an item that are scored, and figures of the counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.registry import Registry
from countergen_edit.data.benchmarks import Files
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.benchmarks.items import Item, scored
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.models import LanguageModel, Workload, lengths

Normalise = Literal["sum", "mean"]
"""Whether a text counts by the log-probability of all its tokens, or by their mean."""
Drawn = Float64[np.ndarray, " resample"]
Of = Callable[[Mapping[str, Drawn]], Drawn]
"""A figure from the sums of each count over items, in every resample."""
Counts = Mapping[str, Float64[np.ndarray, " item"]]
"""What is counted, each of every item."""
ALL = "all"
"""The bias type of figures over all of them."""
LONGEST = 20
"""Texts of each benchmark whose length is checked before anything runs."""

ROW, CHANGE, SOURCE = "benchmark", "benchmark_change", "benchmark_source"
UNDEFINED = "no item by which it is defined"


@dataclass(frozen=True)
class FigureKind:
    """A figure that papers print, as a function of counts over items.

    Attributes
    ----------
    says
        What it is, in a few words.
    of
        Figure from the sums of each count, in every resample.
    fair
        Value of an unbiased model; None where more is better, or neither if `plain`.
    parts
        The parts it is of; empty for all.
    groups
        The groups of items it needs; empty for any.
    needs
        A count of 0 or 1 that marks its items, if most have it; empty for any.
    blind
        The figure's counterpart for a model to which the groups are alike.
    tested
        Family in which P of being fair are adjusted together; empty where an interval decides.
    """

    name: str
    title: str
    says: str
    of: Of
    within: tuple[float, float]
    fair: float | None = None
    parts: tuple[str, ...] = ()
    signed: bool = False
    plain: bool = False
    groups: tuple[str, ...] = ()
    needs: str = ""
    blind: str = ""
    tested: str = ""


@dataclass(frozen=True)
class Printed:
    """A figure of a part that stands in tables of papers."""

    figure: str
    title: str
    part: str = ""


class Benchmark(ABC):
    """A published benchmark, with its data in `files`.

    Attributes
    ----------
    name
        In config and rows, and of its `Source`.
    axes
        Axis → the bias types about it.
    normalise
        As its authors score texts, or else as `asks` says.
    asks, flaws
        What is scored, and known flaws, a sentence each.
    clusters
        What a cluster is, in the plural.
    printed, usual
        Its figures in tables of papers, and whether these have a dash where not measured.
    alike
        Whether every cluster counts alike, however many items it has.
    people
        Source of texts by people, whose figures stand beside the model's.
    is_generating
        Whether it takes nothing but generated texts.
    is_answered
        Whether items are questions, and texts replies.
    """

    name: ClassVar[str]
    figures: ClassVar[tuple[FigureKind, ...]]
    bias_types: ClassVar[tuple[str, ...]]
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    normalise: ClassVar[Normalise]
    asks: ClassVar[str]
    flaws: ClassVar[str]
    clusters: ClassVar[str]
    printed: ClassVar[tuple[Printed, ...]] = ()
    usual: ClassVar[bool] = False
    alike: ClassVar[bool] = False
    people: ClassVar[str] = ""
    is_generating: ClassVar[bool] = False
    is_answered: ClassVar[bool] = False

    def __init__(self, files: Files) -> None:
        self.files = files

    @abstractmethod
    def items(self, bias_types: Sequence[str]) -> list[Item]:
        """The items about some bias types; `UserError` for absent or unknown data."""

    def doubled(self, item: Item, swap: Callable[[str], str]) -> Item:
        """The item with texts of the other audited group by `swap`, where it takes them."""
        return item

    @abstractmethod
    def counted(self, item: Item, scores: Sequence[float]) -> Mapping[str, float]:
        """What is counted of an item, from the score of each text."""

    def counts(
        self,
        context: EvaluationContext,
        edit: NamedEdit | None,
        items: Sequence[Item],
        normalise: Normalise,
    ) -> Counts:
        """Counts of every item under an edit, by the likelihood of its texts."""
        of_texts = scored(context, edit, self.name, items)
        mean = normalise == "mean"
        values = of_texts.log_p / of_texts.tokens if mean else of_texts.log_p
        ends = np.cumsum([len(item.texts) for item in items])
        own = [
            self.counted(item, some.tolist())
            for item, some in zip(items, np.split(values, ends[:-1]), strict=True)
        ]
        return by_count(own)

    def by_people(self, items: Sequence[Item]) -> Counts:
        """Counts of every item in texts by people; empty where there are none."""
        return {}

    def check(self, model: LanguageModel, items: Sequence[Item]) -> None:
        """Raise a `UserError` for a text beyond the model's context, among the longest."""
        texts = {prompt + text for item in items for prompt, text in item.texts}
        lengths(model, sorted(texts, key=len)[-LONGEST:])

    def workload(self, items: Sequence[Item]) -> Workload:
        """Every text of the items."""
        return Workload(scored=tuple(pair for item in items for pair in item.texts))

    def figures_of(self, part: str) -> list[FigureKind]:
        """The figures of a part."""
        return [figure for figure in self.figures if part in figure.parts or not figure.parts]


def mean_of(sums: Mapping[str, Drawn], key: str, per: str = "items") -> Drawn:
    """A count per another, in every resample; NaN where there is none."""
    return np.asarray(sums[key] / sums[per], dtype=np.float64)


def by_count(of_items: Sequence[Mapping[str, float]]) -> Counts:
    """The counts of items, count by count; 0 where an item lacks one."""
    keys = dict.fromkeys(key for one in of_items for key in one)
    return {key: np.array([one.get(key, 0.0) for one in of_items]) for key in keys}


def less(a: Of, b: Of) -> Of:
    """The difference of two figures."""
    return lambda sums: np.asarray(a(sums) - b(sums))


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
