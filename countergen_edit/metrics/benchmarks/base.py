"""Published benchmarks: items, the scored texts of each, and figures as functions of counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.registry import Registry
from countergen_edit.data.benchmarks import Files
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.benchmarks.items import Item, scored
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.models import LanguageModel, lengths

Normalise = Literal["sum", "mean"]
"""Whether a text is scored by the log-probability of all its tokens, or by their mean."""
Drawn = Float64[np.ndarray, " resample"]
Compute = Callable[[Mapping[str, Drawn]], Drawn]
"""A figure from the sums of each count over items, in every resample."""
Counts = Mapping[str, Float64[np.ndarray, " item"]]
ALL = "all"
"""The bias type of figures over all of them."""
LONGEST = 20
"""Texts of each benchmark whose length is checked before a run."""

ROW, CHANGE, SOURCE = "benchmark", "benchmark_change", "benchmark_source"


@dataclass(frozen=True)
class FigureKind:
    """A published figure, as a function of counts over items.

    Attributes
    ----------
    compute
        The figure from the sums of each count, in every resample.
    fair
        Value of an unbiased model; None where more is better, or neither if `undirected`.
    signed
        Whether it lies in [-1, 1] rather than in [0, 1].
    parts, groups
        Parts and groups of items that it is about; empty for all.
    requires
        A count that marks its items; the figure is left out where fewer than half have it.
    counterfactual
        Name of the counterfactual-averaged figure.
    family
        Figures whose P of a fair model are adjusted together; empty where an interval decides.
    """

    name: str
    title: str
    description: str
    compute: Compute
    fair: float | None = None
    signed: bool = False
    undirected: bool = False
    parts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    requires: str = ""
    counterfactual: str = ""
    family: str = ""

    @property
    def within(self) -> tuple[float, float]:
        return (-1.0 if self.signed else 0.0, 1.0)


class Benchmark(ABC):
    """A published benchmark, with its data in `files`.

    Attributes
    ----------
    name
        In config and rows, and of its `Source`.
    axes
        Axis → the bias types about it.
    normalise
        Scoring of texts.
    scoring, flaws
        What is scored, and known flaws, a sentence each.
    clusters
        What a cluster is, in the plural.
    equal_clusters
        Whether every cluster has the same weight, whatever its number of items.
    human_source
        Source of human texts, whose figures are shown beside the model's.
    is_generating
        Whether it uses generated texts only.
    """

    name: ClassVar[str]
    figures: ClassVar[tuple[FigureKind, ...]]
    bias_types: ClassVar[tuple[str, ...]]
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    normalise: ClassVar[Normalise]
    scoring: ClassVar[str]
    flaws: ClassVar[str]
    clusters: ClassVar[str]
    equal_clusters: ClassVar[bool] = False
    human_source: ClassVar[str] = ""
    is_generating: ClassVar[bool] = False

    def __init__(self, files: Files) -> None:
        self.files = files

    @abstractmethod
    def items(self, bias_types: Sequence[str]) -> list[Item]:
        """The items of some bias types; raises `UserError` for missing or unknown data."""

    def with_counterfactuals(self, item: Item, swap: Callable[[str], str]) -> Item:
        """The item with its texts about the other group added; by default unchanged."""
        return item

    @abstractmethod
    def count(self, item: Item, scores: Sequence[float]) -> Mapping[str, float]:
        """The counts of an item, from the score of each text."""

    def counts(
        self, context: EvaluationContext, edit: NamedEdit | None, items: Sequence[Item]
    ) -> Counts:
        """The counts of every item under an edit, from the likelihood of its texts."""
        scores = scored(context, edit, self.name, items)
        values = scores.log_p / scores.tokens if self.normalise == "mean" else scores.log_p
        ends = np.cumsum([len(item.texts) for item in items])
        by_item = zip(items, np.split(values, ends[:-1]), strict=True)
        return stack_counts([self.count(item, own.tolist()) for item, own in by_item])

    def human_counts(self, items: Sequence[Item]) -> Counts:
        """The counts of every item in human texts; empty without such texts."""
        return {}

    def check(self, model: LanguageModel, items: Sequence[Item]) -> None:
        """Raise a `UserError` where one of the longest texts exceeds the model's context."""
        texts = {prompt + text for item in items for prompt, text in item.texts}
        lengths(model, sorted(texts, key=len)[-LONGEST:])

    def figures_of(self, part: str) -> list[FigureKind]:
        return [figure for figure in self.figures if part in figure.parts or not figure.parts]


def _ratio(sums: Mapping[str, Drawn], key: str, per: str) -> Drawn:
    return np.asarray(sums[key] / sums[per], dtype=np.float64)


def ratio(key: str, per: str = "items") -> Compute:
    """One count per another, in every resample; NaN where there is none."""
    return partial(_ratio, key=key, per=per)


def less(a: Compute, b: Compute) -> Compute:
    """The difference of two figures."""
    return lambda sums: np.asarray(a(sums) - b(sums))


def stack_counts(by_item: Sequence[Mapping[str, float]]) -> Counts:
    """Counts of items as one array each; 0 where an item lacks one."""
    keys = dict.fromkeys(key for counts in by_item for key in counts)
    return {key: np.array([counts.get(key, 0.0) for counts in by_item]) for key in keys}


_ROOM = "countergen_edit.metrics.benchmarks"
BENCHMARKS: Registry[type[Benchmark]] = Registry(
    "benchmark",
    "countergen_edit.benchmarks",
    {
        "stereoset": f"{_ROOM}.stereoset:StereoSet",
        "crows_pairs": f"{_ROOM}.crows_pairs:CrowsPairs",
        "bbq": f"{_ROOM}.bbq:Bbq",
        "winobias": f"{_ROOM}.winobias:WinoBias",
        "winogender": f"{_ROOM}.winogender:Winogender",
        "bold": f"{_ROOM}.bold:Bold",
    },
    Benchmark,
)
"""Benchmarks by name; custom ones enter with `@BENCHMARKS.register("mine")`."""
