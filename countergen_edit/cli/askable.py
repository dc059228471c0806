"""The default metrics that the groups of a task can be asked by."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from countergen_edit.cli.printing import say
from countergen_edit.data.axis import DoesNotFitError
from countergen_edit.data.task import Task
from countergen_edit.metrics.base import Metric


def askable(metrics: Mapping[str, Metric], task: Task) -> dict[str, Metric]:
    """The metrics without those of the defaults that do not fit the task's groups.

    One line names each that is left out. A metric that the user named is kept: binding it then
    raises the error.
    """
    if any(word.partition("=")[0] in ("metric", "experiment") for word in sys.argv[1:]):
        return dict(metrics)
    kept = {}
    for name, metric in metrics.items():
        try:
            metric.bound(task)
        except DoesNotFitError as error:
            say([f"{name} is left out: {error}"])
        else:
            kept[name] = metric
    return kept
