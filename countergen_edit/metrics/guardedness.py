"""Guardedness: what probes still find of the groups after an erasure, as certificates say.

Comes in: the certificate of an eraser's fit, which an experiment makes when it fits. Goes out: its
rows, and how they are shown.
"""

from __future__ import annotations

from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.erasers import Certificate
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.bench import Bench
from countergen_edit.metrics.rows import Row


def certificate_rows(certificate: Certificate, task: Task, n: int, seed: int) -> list[Row]:
    """Held-out accuracy of probes before and after an erasure, and what the theorem says.

    Args:
        certificate: of one fit.
        task: the task that was fitted on.
        n: activations that were fitted on, those to be kept not among them.
        seed: the run's seed.
    """
    values = {
        "linear_probe_accuracy_before": certificate.linear_accuracy_before,
        "linear_probe_accuracy": certificate.linear_accuracy_after,
        "nonlinear_probe_accuracy_before": certificate.nonlinear_accuracy_before,
        "nonlinear_probe_accuracy": certificate.nonlinear_accuracy_after,
        "probe_majority_rate": certificate.majority_rate,
        "variance_removed": certificate.variance_removed,
    }
    detail = {"guaranteed": certificate.guaranteed, "reason": certificate.reason}
    return [
        Row.of_set(
            task.fit[0],
            metric,
            value,
            dataset="+".join(data.name for data in task.fit),
            split="validation",
            n=n,
            seed=seed,
            detail=detail,
        )
        for metric, value in values.items()
    ]


class Guardedness(Metric):
    """What certificates say; an experiment that fits an eraser records their rows."""

    def rows(
        self, bench: Bench, edit: NamedEdit | None, split: MeasuredSplit = "test"
    ) -> list[Row]:
        """None: a certificate is made where an eraser is fitted, not where an edit is measured."""
        return []
