"""What every metric is: rows under an edit, and how they are shown; and the registry of metrics.

A metric is one file. It says what it measures (`rows`), which of its figures stand in tables and
figures beside those of other metrics (`quantities`), what else it shows (`sections`), what it says
in words (`sentences`, `outcome`), whether it is bias, cost or neither, and for a cost which way is
worse and its budget. Whoever runs, searches and reports asks these questions and knows no metric.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, Workload

Kind = Literal["bias", "cost", "other"]
Change = Literal["removed", "partly removed", "not removed", "no significant change", "increased"]
"""What an edit did to a bias, in the order in which it is told."""
MeasuredSplit = Literal["validation", "test"]
Own = TypeVar("Own", bound="Metric")


class Metric(ABC):
    """A metric that an audit takes by name, such as `metric=[r,fairpair]`, or as an object.

    Settings are the arguments of `__init__`, which checks their range. `bound` gives a copy that is
    about a task, its prompts made by `prepare`, so that mistakes show before a run begins.
    """

    kind: ClassVar[Kind] = "other"
    title: ClassVar[str] = ""
    """The title in reports; its name if empty."""
    unit: ClassVar[str] = ""
    """The unit of its rows, as axes and tables label it."""
    measures: ClassVar[tuple[str, ...]] = ()
    """The names of its rows, which the default view shows; its own name if empty."""
    digits: ClassVar[int] = 3
    percent: ClassVar[bool] = False
    """Whether its rows are shares."""
    view: ClassVar[type | None] = None
    """The class of a custom view; None takes the registered one, or the default."""
    has_baseline: ClassVar[bool] = False
    """Whether controls (random directions of equal rank) are measured too."""
    is_slow: ClassVar[bool] = False
    """Whether a search measures it for the chosen edit alone, and an audit not on validation."""
    is_generating: bool = False
    """Whether it takes nothing but what a model writes, which encoder-decoder models give too."""
    is_answered: bool = False
    """Whether it takes nothing but how likely replies are to questions, or what a model writes."""
    is_of_edits: ClassVar[bool] = False
    """Whether it says only what edits do: of a model that is not edited it has nothing to say."""

    is_selectable: ClassVar[bool] = True
    """Whether a user may name it in `metric=` or `cost=`; others are recorded by commands."""

    reads_logits: ClassVar[bool] = False
    """Whether it takes whole next-token distributions, which a model on a server does not give."""

    name: str = ""
    """The metric's name in this run."""
    task: Task

    def bound(self: Own, task: Task, name: str = "") -> Own:
        """A copy that is about a task.

        Raises:
            UserError: the task lacks what the metric needs.
        """
        own = copy.copy(self)
        own.task = task
        own.name = name or self.name or METRICS.name_of(self).rpartition(":")[2].lower()
        own.prepare()
        return own

    def prepare(self) -> None:  # noqa: B027 (nothing to prepare is a fine default)
        """Make the prompts of `self.task`.

        Raises:
            UserError: the task lacks what the metric needs.
        """

    def check(self, model: LanguageModel) -> None:  # noqa: B027 (nothing to check is a fine default)
        """Find what would stop the metric half way on a model.

        Raises:
            UserError: with what to change.
        """

    def narrowed(self, model: LanguageModel) -> str:
        """The setting by which it takes nothing that a model does not give; empty without one."""
        return ""

    def workload(self) -> Workload:
        """What it asks a model that is not edited, so that the price is known before: test data."""
        return Workload.scoring(self.task.test)

    @abstractmethod
    def measure(
        self, context: EvaluationContext, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """Every figure of the model under an edit, paired with the unedited model where it can be.

        Args:
            bench: the model, and what was measured on it before.
            edit: None measures the unedited model.
            split: a metric that is not slow is measured on validation data too, by which edits are
                chosen; one that has no validation data gives no rows there.
        """

    def removed(
        self, context: EvaluationContext, edit: NamedEdit, split: MeasuredSplit = "test"
    ) -> Row | None:
        """Of a bias: the row `bias_removed`, the share of it that is gone over a split's sets."""
        return None

    def removed_draws(
        self, context: EvaluationContext, edit: NamedEdit, split: MeasuredSplit = "validation"
    ) -> Float64[np.ndarray, " resample"] | None:
        """Of a bias: the share that is gone, first the value itself, then in each resample.

        The resamples are the same for every edit of a study, so that the standard deviation of
        `a[1:] - b[1:]` is the paired standard error of the difference between two edits. None where
        nothing can be resampled: edits are then compared by their values alone.
        """
        return None


@dataclass(frozen=True)
class Degradation:
    """Degradation by one metric, in the metric's unit."""

    value: float
    budget: float
    group: str = ""
    """The group that it was measured on, where each group has a value of its own."""

    @property
    def share(self) -> float:
        """Of the budget; an edit that improves the metric costs nothing."""
        return max(0.0, self.value / self.budget)


class Cost(Metric):
    """A metric whose change for the worse is what an edit costs.

    A subclass gives `rows`, the row metric that counts, which way is worse, and a default budget;
    its figures then stand among the costs of every table, figure and card.

    Args:
        budget: most that the figure may change for the worse.

    Raises:
        UserError: the budget is not above 0.
    """

    kind: ClassVar[Kind] = "cost"
    has_baseline: ClassVar[bool] = True
    counts: ClassVar[str]
    """The row metric that counts."""
    worse: ClassVar[Literal["higher", "lower"]] = "higher"
    default_budget: ClassVar[float]

    def __init__(self, budget: float | None = None) -> None:
        self.budget = self.default_budget if budget is None else budget
        number = isinstance(self.budget, int | float) and not isinstance(self.budget, bool)
        if not (number and self.budget > 0):
            raise UserError(f"cost.{type(self).__name__.lower()}.budget={budget!r} must be above 0")

    def degradation(self, before: Row, after: Row) -> Degradation | None:
        """How much worse it became; None where it is not known.

        What is worse when higher degradations by its rise, what is worse when lower by its fall.
        """
        if before.value is None or after.value is None:
            return None
        sign = 1 if self.worse == "higher" else -1
        return Degradation(sign * (after.value - before.value), self.budget)

    def counted(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, among those of an edit and split, that the budget holds for, each by itself."""
        return [row for row in rows if row.metric == self.counts][:1]

    def worst(self, before: Sequence[Row], after: Sequence[Row]) -> Degradation | None:
        """The largest degradation over the rows that count; None where one of them is not known.

        Args:
            before: rows of the unedited model, of one split.
            after: rows under an edit, of the same split.
        """
        now = {_about(row): row for row in self.counted(after)}
        pairs = [(row, now.get(_about(row))) for row in self.counted(before)]
        degradations = [self.degradation(row, other) for row, other in pairs if other is not None]
        known = [degradation for degradation in degradations if degradation is not None]
        if not known or len(known) < len(pairs):
            return None
        return max(known, key=lambda degradation: degradation.share)

    def at_best(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with the better end of their interval as their value."""
        ends = [(row, row.lo if self.worse == "higher" else row.hi) for row in rows]
        return [row if end is None else replace(row, value=end) for row, end in ends]


def _about(row: Row) -> tuple[str, str, str]:
    return row.dataset, row.group_a, row.group_b


METRICS: Registry[type[Metric]] = Registry(
    "metric",
    "countergen_edit.metrics",
    {
        "r": "countergen_edit.metrics.r:R",
        "intersections": "countergen_edit.metrics.intersections:Intersections",
        "paraphrases": "countergen_edit.metrics.paraphrases:Paraphrases",
        "fairpair": "countergen_edit.metrics.fairpair.metric:FairPair",
        "cid": "countergen_edit.metrics.cid.metric:Cid",
        "classifier_tasks": "countergen_edit.metrics.classifier_tasks.metric:ClassifierTasks",
        "agreement": "countergen_edit.metrics.costs.agreement:Agreement",
        "perplexity": "countergen_edit.metrics.costs.perplexity:Perplexity",
        "kl": "countergen_edit.metrics.costs.kl:KL",
        "legitimate_differences": (
            "countergen_edit.metrics.costs.legitimate_differences:LegitimateDifferences"
        ),
        "off_target": "countergen_edit.metrics.off_target:OffTarget",
        "benchmarks": "countergen_edit.metrics.benchmarks.metric:Benchmarks",
        "hiring": "countergen_edit.metrics.hiring:Hiring",
        "in_vocabulary": "countergen_edit.metrics.in_vocabulary:InVocabulary",
    },
    Metric,
)
"""Every metric by its name in config; a user's own enters with `@METRICS.register("mine")`."""


def generating() -> list[str]:
    """The metrics that take nothing but what a model writes, but for those of a user's file."""
    return [name for name in METRICS if ".py:" not in name and METRICS.get(name).is_generating]
