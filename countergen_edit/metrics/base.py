"""Metrics and costs, and their registry."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import IN_CHAT, Row
from countergen_edit.metrics.scores import SetScores
from countergen_edit.metrics.statistics import Resampled
from countergen_edit.models import LanguageModel

Kind = Literal["bias", "cost", "other"]
Change = Literal["removed", "partly removed", "not removed", "no significant change", "increased"]
"""The classes of a change of bias, in the order of reports."""
MeasuredSplit = Literal["validation", "test"]
Way = Literal["higher", "lower"]
_M = TypeVar("_M", bound="Metric")  # Self is refused by beartype


class Metric(ABC):
    """A metric, taken by name (`metric=[r,fairpair]`) or as an object.

    A subclass implements `measure`; its settings are the arguments of `__init__`.

    >>> class Gap(Metric):
    ...     def measure(self, context, edit, split="test"):
    ...         scores = [context.scores(data, edit) for data in self.task.sets(split)]
    ...         gaps = [s.log_p[:, 0].mean(axis=1) - s.log_p[:, 1].mean(axis=1) for s in scores]
    ...         return [self.row(context, *of_set, split) for of_set in zip(scores, gaps)]
    """

    kind: ClassVar[Kind] = "other"
    title: ClassVar[str] = ""
    """The title in reports; its name if empty."""
    unit: ClassVar[str] = ""
    """The unit of its rows, as axes and tables label it."""
    measures: ClassVar[tuple[str, ...]] = ()
    """The names of its rows, which the default view shows; its own name if empty."""
    better: ClassVar[Mapping[str, Way]] = {}
    """The better direction of rows, by name, which a gate can hold to a limit."""
    digits: ClassVar[int] = 3
    percent: ClassVar[bool] = False
    """Whether its rows are shares."""
    view: ClassVar[type | None] = None
    """The class of a custom view; None takes the registered one, or the default."""
    has_baseline: ClassVar[bool] = False
    """Whether controls (random directions of equal rank) are measured too."""
    is_slow: ClassVar[bool] = False
    """Whether only selected edits are measured by it."""
    is_generating: bool = False
    """Whether it needs generated text alone, which encoder-decoder models give too."""
    is_of_edits: ClassVar[bool] = False
    """Whether it has no rows of an unedited model."""
    is_selectable: ClassVar[bool] = True
    """Whether `metric=` and `cost=` accept it."""
    reads_logits: ClassVar[bool] = False
    """Whether it needs next-token distributions, which a served model lacks."""

    name: str = ""
    """The metric's name in this run."""
    task: Task

    def bound(self: _M, task: Task, name: str = "") -> _M:
        """A copy for one task; `UserError` if it lacks data that the metric needs."""
        metric = copy.copy(self)
        metric.task = task
        metric.name = name or self.name or METRICS.name_of(self).rpartition(":")[2].lower()
        metric.prepare()
        return metric

    def prepare(self) -> None:  # noqa: B027 (nothing to prepare is a fine default)
        """Make the prompts of `self.task`; `UserError` where it lacks data."""

    def check(self, model: LanguageModel) -> None:  # noqa: B027 (nothing to check is a fine default)
        """Raise a `UserError` if the metric cannot be measured on the model."""

    def narrowed(self, model: LanguageModel) -> str:
        """The setting with which a model suffices; empty without one."""
        return ""

    @classmethod
    def directions(cls, name: str) -> Mapping[str, Way]:
        """Row → the better direction; for a bias without `better`, lower."""
        bias: Mapping[str, Way] = dict.fromkeys(cls.measures or (name,), "lower")
        return cls.better or (bias if cls.kind == "bias" else {})

    @abstractmethod
    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """The rows of a model under an edit, paired with the unedited model where possible.

        Runs add the columns of the edit, the task, the split and the seed. An edit of None is the
        unedited model; a metric that is not slow is measured on validation data too.
        """

    def row(
        self,
        context: EvaluationContext,
        scores: SetScores,
        values: Float64[np.ndarray, " item"] | Float64[np.ndarray, "item group variation"],
        split: MeasuredSplit = "test",
        metric: str = "",
        **columns: Any,
    ) -> Row:
        """A row with a mean and its 95 % bootstrap interval over templates and names.

        `values` are one for each item of the set, or for each prompt (as `scores.log_p`) to draw
        names too; `metric` is the row's name, by default the metric's.
        """
        mean = scores.mean(values, context.seed)
        columns = {"split": split, "n": len(scores.output)} | columns
        return Row.of(metric or self.name, mean, scores.data, **columns)

    def removed(
        self, context: EvaluationContext, edit: NamedEdit, split: MeasuredSplit = "test"
    ) -> Row | None:
        """Of a bias: the row `bias_removed`, over the sets of a split together."""
        return None

    def removed_draws(
        self, context: EvaluationContext, edit: NamedEdit, split: MeasuredSplit = "validation"
    ) -> Resampled | None:
        """Of a bias: the share removed, then that of each resample, the same for every edit."""
        return None


@dataclass(frozen=True)
class Degradation:
    """The degradation by one metric, in the metric's unit."""

    value: float
    budget: float
    group: str = ""
    """The group, where each group has a value of its own."""

    @property
    def share(self) -> float:
        """The share of the budget; 0 where the edit improves the metric."""
        return max(0.0, self.value / self.budget)


class Cost(Metric):
    """A metric with a budget: the largest acceptable degradation, above 0."""

    kind: ClassVar[Kind] = "cost"
    has_baseline: ClassVar[bool] = True
    counts: ClassVar[str]
    """The row metric that counts."""
    worse: ClassVar[Way] = "higher"
    default_budget: ClassVar[float]

    def __init__(self, budget: float | None = None) -> None:
        self.budget = self.default_budget if budget is None else budget
        number = isinstance(self.budget, int | float) and not isinstance(self.budget, bool)
        if not (number and self.budget > 0):
            name = METRICS.name_of(self).rpartition(":")[2]
            raise UserError(f"cost.{name}.budget={budget!r} must be above 0")

    @classmethod
    def directions(cls, name: str) -> Mapping[str, Way]:
        """The row that counts, and others that say so."""
        return {cls.counts: "lower" if cls.worse == "higher" else "higher", **cls.better}

    def degradation(self, before: Row, after: Row) -> Degradation | None:
        """The degradation; None where a value is missing."""
        if before.value is None or after.value is None:
            return None
        sign = 1 if self.worse == "higher" else -1
        return Degradation(sign * (after.value - before.value), self.budget)

    def counted(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that the budget holds for; in a chat template too."""
        rows = [row for row in rows if row.metric == self.counts]
        return [*rows[:1], *[row for row in rows if row.dataset.endswith(IN_CHAT)][:1]]

    def worst(self, before: Sequence[Row], after: Sequence[Row]) -> Degradation | None:
        """The largest degradation over the counted rows; None where one is missing."""
        first, now = (
            {(row.dataset, row.group_a, row.group_b): row for row in self.counted(rows)}
            for rows in (before, after)
        )
        degradations = []
        for key, row in first.items():
            if key not in now or (degradation := self.degradation(row, now[key])) is None:
                return None
            degradations.append(degradation)
        return max(degradations, key=lambda degradation: degradation.share, default=None)

    def at_best(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with the better end of their interval as their value."""
        ends = [(row, row.lo if self.worse == "higher" else row.hi) for row in rows]
        return [row if end is None else replace(row, value=end) for row, end in ends]


_ROOM = "countergen_edit.metrics"
METRICS: Registry[type[Metric]] = Registry(
    "metric",
    _ROOM,
    {
        "r": f"{_ROOM}.r.metric:R",
        "intersections": f"{_ROOM}.intersections:Intersections",
        "paraphrases": f"{_ROOM}.paraphrases:Paraphrases",
        "fairpair": f"{_ROOM}.fairpair.metric:FairPair",
        "cid": f"{_ROOM}.cid:Cid",
        "agreement": f"{_ROOM}.costs.agreement:Agreement",
        "perplexity": f"{_ROOM}.costs.perplexity:Perplexity",
        "kl": f"{_ROOM}.costs.perplexity:KL",
        "legitimate_differences": f"{_ROOM}.costs.legitimate_differences:LegitimateDifferences",
        "off_target": f"{_ROOM}.r.metric:OffTarget",
        "locate": f"{_ROOM}.locate:Locate",
        "benchmarks": f"{_ROOM}.benchmarks:Benchmarks",
        "decisions": f"{_ROOM}.decisions:Decisions",
        "in_vocabulary": f"{_ROOM}.in_vocabulary:InVocabulary",
    },
    Metric,
)
"""Metrics by name; a user's own enters with `@METRICS.register("mine")`."""

DEFAULT_BIAS = "r"


def bias_of(metrics: Sequence[Metric]) -> Metric | None:
    """The bias that edits are selected by: the first metric with a share removed."""
    return next((m for m in metrics if type(m).removed is not Metric.removed), None)


def generating() -> list[str]:
    """The registered metrics that need generated text alone."""
    return [name for name in METRICS if ".py:" not in name and METRICS.get(name).is_generating]
