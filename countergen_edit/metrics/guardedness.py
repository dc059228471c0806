"""Guardedness: held-out accuracy of probes before and after an erasure, from its certificate."""

from __future__ import annotations

from countergen_edit.data.task import Task
from countergen_edit.erasers import Certificate
from countergen_edit.metrics.rows import Row
from countergen_edit.metrics.statistics import Estimate

PROBES = {"linear": "linear probe", "nonlinear": "non-linear probe"}


def certificate_rows(
    certificate: Certificate,
    task: Task,
    n: int,
    seed: int,
    *,
    refitted: bool = True,
    remark: str = "",
) -> list[Row]:
    """Held-out accuracy of probes before and after an erasure, and what the theorem says.

    Args:
        certificate: of one fit.
        task: the task that was fitted on.
        n: activations that were fitted on, those to be kept not among them.
        seed: the run's seed.
        refitted: whether the eraser was fitted anew without the names that probes are measured on.
        remark: what a reader should know of the fit, as the end of a sentence.
    """
    values = {
        f"{kind}_probe_accuracy{end}": _of(certificate, f"{kind}_accuracy_{when}")
        for kind in PROBES
        for when, end in (("before", "_before"), ("after", ""))
    }
    values |= {
        "probe_majority_rate": _of(certificate, "majority_rate"),
        "variance_removed": _of(certificate, "variance_removed"),
    }
    several = {"groups": [*task.groups]} if len(task.groups) > 2 else {}
    detail = {
        "guaranteed": certificate.guaranteed,
        "reason": certificate.reason,
        "refitted": refitted,
        "remark": remark,
    } | several
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


def _of(certificate: Certificate, name: str) -> Estimate:
    """A figure of a certificate, with its interval where it has one."""
    nan = float("nan")
    return Estimate(getattr(certificate, name), *certificate.intervals.get(name, (nan, nan)), nan)
