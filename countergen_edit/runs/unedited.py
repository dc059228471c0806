"""An audit without erasers: the unedited model, on test data, metric by metric.

Comes in: a model, a task and metrics. Goes out: rows, the same as an audit with erasers has of the
unedited model. Nothing is fitted, chosen or searched, so that no validation figures are taken and
sets to fit on and to keep are left alone. Refused: a metric that takes what a model does not give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from countergen_edit.data.axis import Split
from countergen_edit.data.task import Task
from countergen_edit.core.errors import UserError
from countergen_edit.runs.run_folder import RunFolder
from countergen_edit.runs.study import Study
from countergen_edit.runs.units import units
from countergen_edit.metrics.base import METRICS, Metric, generating
from countergen_edit.models import LanguageModel, lengths
from countergen_edit.models.progress import announce

T = TypeVar("T")


def tested_alone(task: Task) -> Task:
    """The task with what a model that is not edited is measured on: test data, no facts to keep."""

    def tested(by_split: Mapping[Split, T]) -> dict[Split, T]:
        return {split: data for split, data in by_split.items() if split == "test"}

    return replace(
        task,
        fit=(),
        validation=(),
        keep=(),
        background=(),
        agreement=tested(task.agreement),
        legitimate_differences={},
        neutral=tested(task.neutral),
    )


def of_models(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics that say something of a model that is not edited.

    Raises:
        UserError: there are some, all of which are about edits.
    """
    kept = [metric for metric in metrics if not metric.is_of_edits]
    if metrics and not kept:
        raise UserError(
            f"metric={_called(metrics[0])} says what edits do, and without an eraser there are "
            "none: name another, such as metric=r, or an eraser"
        )
    return kept


def lacking(model: LanguageModel, metric: Metric) -> str:
    """What a metric takes that a model does not give, and why not; empty where it gives all."""
    why, what = model.no_likelihoods, "texts"
    if metric.is_answered:
        why, what = model.no_replies, "replies"
    if why and not metric.is_generating:
        return f"likelihoods of {what}, which {model.name} does not give, {why}"
    if model.no_activations and metric.reads_logits:
        return f"whole distributions, which {model.name} does not give, {model.no_activations}"
    return ""


def check_unedited(
    model: LanguageModel, task: Task, metrics: Sequence[Metric], seed: int = 0
) -> None:
    """Find what would stop the measuring half way, before a run folder is made; say what it costs.

    Raises:
        UserError: there is no metric or no test set; the model does not give what a metric takes;
            a prompt with its output is longer than the model's context; a metric finds what it
            cannot work with; or asking the model costs more than was allowed.
    """
    if not metrics:
        raise UserError("there is no metric: name at least one, such as metric=r")
    if not (task.test or task.out_of_vocabulary):
        raise UserError("there are no test sets: name at least one under data.test")
    for metric in metrics:
        if lack := lacking(model, metric):
            instead = f"metric=[{','.join(generating())}]"
            ways = filter(None, (instead, metric.narrowed(model)))
            raise UserError(
                f"metric={_called(metric)} needs {lack}: what can be measured on it is "
                f"{' or '.join(ways)}"
            )
    of_texts = [m for m in metrics if not (m.is_generating or m.is_answered)]
    for data in task.every_set if of_texts else ():
        lengths(model, [v.text + o for s in data.samples for v in s.variations for o in s.outputs])
    own = [metric.bound(task) for metric in metrics]
    for metric in own:
        metric.check(model)
    if costs := model.estimate([metric.workload() for metric in own], seed):
        announce(costs)


def _called(metric: Metric) -> str:
    return metric.name or METRICS.name_of(metric).rpartition(":")[2]


def measure(
    model: LanguageModel, task: Task, metrics: Sequence[Metric], folder: RunFolder, seed: int
) -> None:
    """Measure what is left to be measured, a unit of work for each metric.

    Args:
        model: the unedited model.
        task: whose test data.
        metrics: what is measured.
        folder: where rows go; units it already holds are not run again.
        seed: the run's seed.
    """
    study = Study(model, task, metrics, folder, sites=(), seed=seed)
    with units(folder) as run:
        run.stage("unedited model", len(study.metrics))
        for metric in study.metrics:
            run(
                f"unedited/{metric.name}",
                metric.name,
                partial(study.measure, None, "test", [metric]),
            )
