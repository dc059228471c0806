"""What every metric is: rows under an edit, and how they are shown; and the registry of metrics.

A metric is one file. It says what it measures (`rows`), which of its figures stand in tables and
figures beside those of other metrics (`quantities`), what else it shows (`sections`), what it says
in words (`sentences`, `outcome`), whether it is bias, cost or neither, and for a cost which way is
worse and its budget. Whoever runs, searches and reports asks these questions and knows no metric.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

import numpy as np
from jaxtyping import Float64

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.data.task import Task
from countergen_edit.edits import EditRecord, NamedEdit
from countergen_edit.metrics.blocks import Section
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.panels import Panel
from countergen_edit.metrics.results import Results, Side, State
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.models import Asked, LanguageModel

Kind = Literal["bias", "cost", "other"]
Change = Literal["removed", "partly removed", "not removed", "no significant change", "increased"]
"""What an edit did to a bias, in the order in which it is told."""
MeasuredSplit = Literal["validation", "test"]
Own = TypeVar("Own", bound="Metric")


@dataclass(frozen=True)
class Quantity:
    """One figure of every edit: a column of tables, an axis of figures, a line of a card."""

    title: str
    rows: Mapping[str, Row]
    """By id of the edit, the unedited model's among them."""
    kind: Kind
    digits: int = 3
    percent: bool = False
    signed: bool = False
    main: bool = True
    """Whether it stands where all metrics stand side by side."""
    of: str = ""
    """The test set, where several have a figure of this kind."""
    axis: str = ""
    """What an axis that shows it is called; empty where the title does."""
    limits: tuple[float, float] | None = None
    """Ends of such an axis, where it has natural ones."""
    covers: tuple[float, float] | None = None
    """What such an axis covers at least: up to where one would begin to mind it."""
    truth: Row | None = None
    """The planted value, where it is known."""
    drawn: bool = True
    """Whether figures show it."""


@dataclass(frozen=True)
class Standing:
    """A column of the table that papers print: a figure of every edit, and how it was measured."""

    quantity: Quantity
    """Without rows where the run did not measure it."""
    of: str = ""
    """What several columns are of, such as a benchmark; empty where it stands alone."""
    about: str = ""
    """What of it was asked, and on how much, a few words."""
    changed: Collection[str] | None = None
    """Ids of the edits that are shown to change it; None where that was not tested."""
    notes: tuple[str, ...] = ()
    """What a reader of the table has to know, sentences."""
    measured_by: str = ""
    """The setting that has it measured."""
    usual: bool = True
    """Whether it has its column where no run measured it."""


class Metric(ABC):
    """A metric that an audit takes by name, such as `metric=[r,fairpair]`, or as an object.

    Settings are the arguments of `__init__`, which checks their range. `bound` gives a copy that is
    about a task, its prompts made by `prepare`, so that mistakes show before a run begins.
    """

    kind: ClassVar[Kind] = "other"
    title: ClassVar[str] = ""
    """What reports call it; empty takes its name."""
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

    def asks(self) -> Asked:
        """What it asks a model that is not edited, so that the price is known before: test data."""
        return Asked.scoring(self.task.test)

    @abstractmethod
    def rows(
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

    def significant_bias(self, context: EvaluationContext) -> Row | None:
        """Of a bias: the row `bias_significant`, 0 where validation data show none to remove."""
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

    @classmethod
    def quantities(cls, results: Results, split: str = "test") -> list[Quantity]:
        """Its figures that stand beside those of other metrics; none where it was not measured."""
        return []

    @classmethod
    def glance(cls, states: Sequence[State]) -> list[Panel]:
        """What an overview draws of it: every state on all test data, on one axis.

        Args:
            states: what is compared; the first is the reference.
        """
        return []

    @classmethod
    def side_by_side(cls, results: Results) -> list[Quantity]:
        """Its figures on test data by which runs are compared; its main quantities unless given.

        Runs share a column where a quantity of each has the same title.
        """
        return [quantity for quantity in cls.quantities(results) if quantity.main]

    @classmethod
    def leaderboard(cls, results: Results) -> list[Standing]:
        """Its columns in the table that papers print, on test data; measured or not."""
        return []

    @classmethod
    def pooled(cls, sides: Sequence[Side]) -> list[Row]:
        """Rows about several runs together, such as a mean over models."""
        return []

    @classmethod
    def over_runs(cls, sides: Sequence[Side], pooled: Sequence[Row]) -> list[Section]:
        """What else it shows of several runs together, with the rows that it pooled of them."""
        return []

    @classmethod
    def sections(cls, results: Results) -> list[Section]:
        """What else it shows, each under the tab it belongs to."""
        return []

    @classmethod
    def sentences(cls, results: Results) -> list[str]:
        """What it found, in words."""
        return []

    @classmethod
    def headline(cls, results: Results) -> list[str]:
        """The sentences that a verdict has room for."""
        return cls.sentences(results)[:1]

    @classmethod
    def remaining(cls, results: Results, edit: EditRecord) -> list[str]:
        """Group differences under an edit, and what it made worse, a few words each."""
        return []

    @classmethod
    def changes(cls, results: Results, edit: EditRecord) -> Mapping[str, Change]:
        """Of a bias: what an edit did to it on each set of test data, by the set's label."""
        return {}

    @classmethod
    def outcome(cls, results: Results, edit: EditRecord) -> str:
        """Of a bias: what an edit left of it, a sentence. Of a cost: what it is, in a few words."""
        return ""

    @classmethod
    def baselines(cls, results: Results) -> list[tuple[str, tuple[EditRecord, ...]]]:
        """Of a bias: what is left of it in other ways to the same end, such as prompting, in words.

        With each sentence the edits whose costs are to be told after it.
        """
        return []

    @classmethod
    def caveats(cls, results: Results) -> list[str]:
        """How sure its figures are; said after all that was found."""
        return []


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
    digits: ClassVar[int] = 3

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

    @classmethod
    def quantities(cls, results: Results, split: str = "test") -> list[Quantity]:
        """Every row of the metric that counts."""
        return [
            Quantity(cls.title, alike(results, row), "cost", cls.digits)
            for row in results.unedited(cls.counts, split)
        ]

    @classmethod
    def outcome(cls, results: Results, edit: EditRecord) -> str:
        """The figure before and after."""
        parts = []
        for quantity in cls.quantities(results):
            before, after = (quantity.rows.get(e) for e in (UNEDITED, edit.id))
            if quantity.main and before and after and None not in (before.value, after.value):
                parts.append(
                    f"{quantity.title} {before.value:.{cls.digits}f} → {after.value:.{cls.digits}f}"
                )
        return ", ".join(parts)


def _about(row: Row) -> tuple[str, str, str]:
    return row.dataset, row.group_a, row.group_b


def alike(results: Results, row: Row, metric: str | None = None) -> dict[str, Row]:
    """The row and those about the same data under every edit, by the edit's id."""
    wanted = metric or row.metric
    about = row.key[1:-2]
    return {r.edit: r for r in results.of(wanted, row.split) if r.key[1:-2] == about}


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
        "guardedness": "countergen_edit.metrics.guardedness:Guardedness",
        "refinement": "countergen_edit.metrics.refinement:Refinement",
        "gates": "countergen_edit.metrics.gates:Gates",
        "augmented": "countergen_edit.metrics.augmented:Augmented",
        "logged": "countergen_edit.metrics.logged:Logged",
    },
    Metric,
)
"""Every metric by its name in config; a user's own enters with `@METRICS.register("mine")`."""


def generating() -> list[str]:
    """The metrics that take nothing but what a model writes, but for those of a user's file."""
    return [name for name in METRICS if ".py:" not in name and METRICS.get(name).is_generating]
