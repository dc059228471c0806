"""An audit without erasers: the model as it came, on test data, metric by metric.

Comes in: a model, a task and metrics. Goes out: rows, the same as an audit with erasers has of the
unedited model. Nothing is fitted, chosen or searched, so that no validation figures are taken and
sets to fit on and to keep are left alone. Refused: a metric that needs likelihoods, of a model that
only generates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from countergen_edit.data.axis import Split
from countergen_edit.data.task import Task
from countergen_edit.errors import UserError
from countergen_edit.experiments.forecast import reading, try_reading
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.experiments.study import Study
from countergen_edit.experiments.units import units
from countergen_edit.experiments.work import Work, measuring
from countergen_edit.metrics.base import METRICS, Metric, generating
from countergen_edit.models import LanguageModel, encode

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
        facts={},
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


def check_unedited(model: LanguageModel, task: Task, metrics: Sequence[Metric]) -> None:
    """Find what would stop the measuring half way, before a run folder is made.

    Raises:
        UserError: there is no metric or no test set; the model only generates, and a metric needs
            likelihoods; a prompt with its output is longer than the model's context; or a metric
            finds what it cannot work with.
    """
    if not metrics:
        raise UserError("there is no metric: name at least one, such as metric=r")
    if not task.test:
        raise UserError("there are no test sets: name at least one under data.test")
    scoring = [metric for metric in metrics if not metric.is_generating]
    if scoring and model.is_encoder_decoder:
        raise UserError(
            f"metric={_called(scoring[0])} needs likelihoods of texts, which {model.name} does not "
            "give, as it is an encoder-decoder model: those that can be measured on it are "
            f"metric=[{','.join(generating())}]"
        )
    for data in task.every_set if scoring else ():
        encode(model, [v.text + o for s in data.samples for v in s.variations for o in s.outputs])
    for metric in metrics:
        metric.bound(task).check(model)


def _called(metric: Metric) -> str:
    return metric.name or METRICS.name_of(metric).rpartition(":")[2]


def measure(
    model: LanguageModel, task: Task, metrics: Sequence[Metric], folder: RunFolder, seed: int
) -> None:
    """Measure what is left to be measured, a unit of work for each metric.

    Args:
        model: as it came.
        task: whose test data.
        metrics: what is measured.
        folder: where rows go; units it already holds are not run again.
        seed: the run's seed.
    """
    study = Study(model, task, metrics, folder, sites=(), seed=seed)
    quick = [metric for metric in study.metrics if not metric.is_slow]
    whole = measuring(study, "test", None) if quick else Work()
    pace = partial(try_reading, study) if quick else None
    with units(folder, pace=pace, about=reading(study)) as run:
        run.expect(whole)
        for metric in study.metrics:
            run(
                f"unedited/{metric.name}",
                f"the model as it came: {metric.name}",
                partial(study.measure, None, "test", [metric]),
                # Texts are scored once, whichever metric asks first.
                Work() if metric.is_slow else (1 / len(quick)) * whole,
            )
