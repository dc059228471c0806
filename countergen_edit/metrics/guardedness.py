"""Guardedness: held-out accuracy of probes before and after an erasure, from its certificate."""

from __future__ import annotations

import math
from typing import Any

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
    figures = {
        f"{kind}_probe_accuracy{end}": f"{kind}_accuracy_{when}"
        for kind in PROBES
        for when, end in (("before", "_before"), ("after", ""))
    }
    figures |= {"probe_majority_rate": "majority_rate", "variance_removed": "variance_removed"}
    detail: dict[str, Any] = {
        "guaranteed": certificate.guaranteed,
        "reason": certificate.reason,
        "refitted": refitted,
        "remark": remark,
    }
    if len(task.groups) > 2:
        detail["groups"] = [*task.groups]
    about = {"dataset": "+".join(data.name for data in task.fit), "split": "validation", "n": n}
    rows = []
    for metric, name in figures.items():
        ends = certificate.intervals.get(name, (math.nan, math.nan))
        value = Estimate(getattr(certificate, name), *ends, math.nan)
        rows.append(Row.of_set(task.fit[0], metric, value, **about, seed=seed, detail=detail))
    return rows
