"""What all metrics of an audit share, and the shelf they are found on by name.

Comes in: what an audit knows (`Subject`) and the metric's own settings. Goes out: rows under an
edit. A metric prepares its prompts when it is made, so that mistakes show before a run begins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from countergen_edit.data.axis import Axis, Split
from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.substitution import Substitution
from countergen_edit.edits import Edit
from countergen_edit.errors import require_free, unknown
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.scores import ScoreCache
from countergen_edit.models import LanguageModel


@dataclass(frozen=True)
class Subject:
    """What an audit is about, as far as metrics may know it."""

    axis: Axis
    groups: tuple[str, str]
    seed: int
    substitution: Substitution | None = None
    """Swaps the groups in running text, where the axis says how."""
    measured: Sequence[tuple[Split, Sequence[CounterfactualSet]]] = ()
    """The audit's own sets, by split."""
    planted: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(template, output) → planted R, where the truth is known."""
    scores: ScoreCache = field(default_factory=ScoreCache)
    """Likelihoods of the audit's own sets, shared by the metrics that read them."""


UNEDITED = "none"
"""The label of the model as it came."""


class Metric(ABC):
    """A metric that an audit takes by name, such as `metric=[r,fairpair]`.

    Args:
        subject: what the audit is about.
    """

    name: ClassVar[str]
    has_baseline: ClassVar[bool] = False
    """Whether random directions of equal rank are measured too."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def check(self, model: LanguageModel) -> None:  # noqa: B027 (nothing to check is a fine default)
        """Find what would stop the metric half way.

        Raises:
            UserError: with what to change.
        """

    @abstractmethod
    def rows(self, model: LanguageModel, edit: Edit | None, label: str, store: Path) -> list[Row]:
        """Every figure of the model under an edit, paired with the unedited model where it can be.

        Args:
            model: the model, unedited; the metric attaches the edit itself.
            edit: None measures the model as it came.
            label: the edit's name in rows, `UNEDITED` for the model as it came.
            store: a folder of the metric's own within the run, for what took long to make: a
                killed run finds it there again. Files are written under a temporary name and
                renamed; the unedited model's may be absent when an edit is measured, and are then
                made again.
        """


METRICS: dict[str, type[Metric]] = {}
"""Every registered metric by its name in config; a user's own enters with `@register("mine")`."""

Registered = TypeVar("Registered", bound=Metric)


def register(name: str) -> Callable[[type[Registered]], type[Registered]]:
    """Put a metric class on the shelf under `name`.

    Raises:
        UserError: the name is taken by another class.
    """

    def enter(metric: type[Registered]) -> type[Registered]:
        require_free("metric", name, metric, METRICS)
        metric.name = name
        METRICS[name] = metric
        return metric

    return enter


def make_metric(name: str, subject: Subject, **settings: Any) -> Metric:
    """The metric registered under `name`, ready to measure.

    Raises:
        UserError: no such metric, or no such setting; with the nearest valid name.
    """
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    valid = [p for p in signature(METRICS[name]).parameters if p != "subject"]
    for setting in settings:
        if setting not in valid:
            raise unknown(f"setting of metric {name}", setting, valid)
    return METRICS[name](subject, **settings)
