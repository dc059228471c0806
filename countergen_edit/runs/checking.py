"""What would stop a study half way, found before a run folder is made.

Comes in: all that a study is made of. Goes out: nothing. Refused: what could not be measured,
fitted or edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from countergen_edit.data.task import Task
from countergen_edit.erasers import BaseEraser
from countergen_edit.core.errors import UserError
from countergen_edit.runs.fit_data import Positions, capture_sites
from countergen_edit.metrics.base import Metric, generating
from countergen_edit.models import LanguageModel, encode, hook_name


def check_study(
    model: LanguageModel,
    task: Task,
    erasers: Mapping[str, BaseEraser],
    metrics: Sequence[Metric],
    *,
    sites: Sequence[str],
    layers: Sequence[int] | None,
    positions: Positions,
) -> None:
    """Find what would stop a study half way, before a run folder is made.

    Raises:
        UserError: the task lacks what is needed; an eraser's settings are none; the model only
            generates or runs elsewhere, or has no such site or layer; a prompt with its output is
            longer than the model's context; the groups are the same wherever erasers would be
            fitted; or a metric finds what it cannot work with.
    """
    if not metrics:
        raise UserError("there is no metric: name at least one, such as metric=r")
    if not task.test:
        raise UserError("there are no test sets: name at least one under data.test")
    if not erasers:
        raise UserError(
            "there is no eraser, and so no edit: name at least one, such as eraser=rlace"
        )
    if model.no_activations:
        raise UserError(
            f"nothing is fitted on {model.name}, {model.no_activations}: measure it as it is, "
            f"eraser=none metric=[{','.join(generating())}]"
        )
    if not task.fit:
        raise UserError("there are no fitting sets: name at least one under data.fit")
    for eraser in erasers.values():
        eraser.check()
        rank = getattr(eraser, "rank", None)
        if isinstance(rank, int) and rank >= model.d_model:
            raise UserError(
                f"rank = {rank} would erase all of the {model.d_model} features of {model.name}: "
                f"use {model.d_model - 1} or less"
            )
    for site in sites:
        for layer in layers or (0,):
            hook_name(model, site, layer)
    encode(model, task.background)
    for data in task.every_set:
        encode(model, [v.text + o for s in data.samples for v in s.variations for o in s.outputs])
    for metric in metrics:
        metric.bound(task).check(model)
    some = replace(task.fit[0], samples=task.fit[0].samples[:1])
    for site in sites:
        weighed = task.weighed[:1]
        capture_sites(model, [some], [], weighed, sites=(site,), layers=layers, positions=positions)
