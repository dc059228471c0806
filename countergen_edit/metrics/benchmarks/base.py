"""Published benchmarks: items, the scored texts of each, and figures as functions of counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.registry import Registry
from countergen_edit.data.benchmarks import Files, description
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.benchmarks.items import Item, by_item, scored
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.models import LanguageModel, lengths

Normalise = Literal["sum", "mean"]
"""Whether a text is scored by the log-probability of all its tokens, or by their mean."""
Drawn = Float64[np.ndarray, " resample"]
Compute = Callable[[Mapping[str, Drawn]], Drawn]
"""A figure from the sums of each count over items, in every resample."""
Counts = Mapping[str, Float64[np.ndarray, " item"]]
Own = TypeVar("Own", bound="type[Benchmark]")
ALL = "all"
"""The bias type of figures over all of them."""
LONGEST = 20
"""Texts of each benchmark whose length is checked before a run."""

ROW, CHANGE, SOURCE = "benchmark", "benchmark_change", "benchmark_source"


@dataclass(frozen=True)
class FigureKind:
    """A published figure, as a function of counts over items."""

    name: str
    title: str
    description: str
    compute: Compute
    """The figure from the sums of each count, in every resample."""
    fair: float | None = None
    """Value of an unbiased model; None where more is better, or neither if `undirected`."""
    signed: bool = False
    """Whether it lies in [-1, 1] rather than in [0, 1]."""
    undirected: bool = False
    parts: tuple[str, ...] = ()
    """Parts of the benchmark that have it; empty for all."""
    groups: tuple[str, ...] = ()
    """Groups of items that it is about; empty for all."""
    requires: str = ""
    """A count that marks its items; the figure is left out where fewer than half have it."""
    counterfactual: str = ""
    """Name of the counterfactual-averaged figure."""
    family: str = ""
    """Figures whose P of a fair model are adjusted together; empty where an interval decides."""

    @property
    def within(self) -> tuple[float, float]:
        return (-1.0 if self.signed else 0.0, 1.0)


class Benchmark(ABC):
    """A published benchmark, with its data in `files`."""

    name: ClassVar[str]
    """In config and rows, and of its `Source`."""
    figures: ClassVar[tuple[FigureKind, ...]]
    bias_types: ClassVar[tuple[str, ...]]
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Axis → the bias types about it."""
    normalise: ClassVar[Normalise]
    scoring: ClassVar[str]
    """What is scored, in a sentence."""
    flaws: ClassVar[str]
    """Known flaws, in a sentence."""
    clusters: ClassVar[str]
    """What a cluster is, in the plural."""
    equal_clusters: ClassVar[bool] = False
    """Whether every cluster has the same weight, whatever its number of items."""
    human_source: ClassVar[str] = ""
    """Source of human texts, whose figures are shown beside the model's."""
    is_generating: ClassVar[bool] = False
    """Whether it uses generated texts only."""

    def __init__(self, files: Files) -> None:
        self.files = files

    @abstractmethod
    def items(self, bias_types: Sequence[str]) -> Iterable[Item]:
        """Items of some bias types; others are left out. `UserError` for missing data."""

    @abstractmethod
    def count(self, item: Item, scores: Sequence[float]) -> Mapping[str, float]:
        """The counts of an item, from the score of each text."""

    def with_counterfactuals(self, item: Item, swap: Callable[[str], str]) -> Item:
        """The item with its texts about the other group added; by default unchanged."""
        return item

    def scores(
        self, context: EvaluationContext, edit: NamedEdit | None, items: Sequence[Item]
    ) -> Iterable[Sequence[float]]:
        """The score of each text of the items under an edit: by default its likelihood."""
        found = scored(context, edit, self.name, items)
        values = found.log_p / found.tokens if self.normalise == "mean" else found.log_p
        return by_item(values.tolist(), items)

    def human_scores(self, items: Sequence[Item]) -> Iterable[Sequence[float]]:
        """The scores of human texts, of every item; empty without such texts."""
        return ()

    def counts(self, items: Sequence[Item], scores: Iterable[Sequence[float]]) -> Counts:
        """The counts of all items, from the score of each text."""
        return stacked([self.count(item, own) for item, own in zip(items, scores, strict=True)])

    def check(self, model: LanguageModel, items: Sequence[Item]) -> None:
        """Raise a `UserError` where one of the longest texts exceeds the model's context."""
        texts = {prompt + text for item in items for prompt, text in item.texts}
        lengths(model, sorted(texts, key=len)[-LONGEST:])

    @classmethod
    def figures_of(cls, part: str) -> list[FigureKind]:
        return [figure for figure in cls.figures if part in figure.parts or not figure.parts]


def described(name: str, **computed: Compute) -> Callable[[Own], Own]:
    """Give a class the attributes of a description in `data/benchmarks`.

    `computed` are the figures that have no formula there.
    """

    def describe(cls: Own) -> Own:
        about = description(name)
        cls.name = name
        cls.bias_types = tuple(about["bias_types"])
        cls.axes = {axis: tuple(types) for axis, types in about["axes"].items()}
        cls.normalise = about["normalise"]
        cls.scoring, cls.flaws, cls.clusters = about["scoring"], about["flaws"], about["clusters"]
        cls.equal_clusters = about.get("equal_clusters", False)
        cls.human_source = about.get("human_source", "")
        cls.is_generating = about.get("is_generating", False)
        if figures := about.get("figures"):
            cls.figures = tuple(
                _figure_kind(kind, own, computed.get(kind)) for kind, own in figures.items()
            )
        return cls

    return describe


def _figure_kind(name: str, about: Mapping[str, Any], computed: Compute | None) -> FigureKind:
    """A described figure, which has a formula unless it is computed."""
    own = {key: value for key, value in about.items() if key != "formula"}
    own["parts"] = tuple(about.get("parts", ()))
    return FigureKind(name, compute=computed or formula(about["formula"]), **own)


def stacked(by_item: Sequence[Mapping[str, float]]) -> Counts:
    """Counts of items as one array each; 0 where an item lacks one."""
    keys = dict.fromkeys(key for counts in by_item for key in counts)
    return {key: np.array([counts.get(key, 0.0) for counts in by_item]) for key in keys}


def formula(text: str) -> Compute:
    """The figure of a formula of counts: a ratio, or one less another.

    >>> gap = formula("pro_right / pro - anti_right / anti")
    >>> sums = {"pro_right": 3, "pro": 4, "anti_right": 1, "anti": 4}
    >>> gap({count: np.array([float(n)]) for count, n in sums.items()})
    array([0.5])
    """
    first, *others = [ratio(*one.split(" / ")) for one in text.split(" - ")]
    return less(first, *others) if others else first


def ratio(key: str, per: str) -> Compute:
    """One count per another, in every resample; NaN where there is none."""
    return lambda sums: np.asarray(sums[key] / sums[per], dtype=np.float64)


def less(a: Compute, b: Compute) -> Compute:
    """The difference of two figures."""
    return lambda sums: np.asarray(a(sums) - b(sums))


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
