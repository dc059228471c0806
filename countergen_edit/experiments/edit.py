"""The edit that an audit measured, fitted again so that it can be kept.

Comes in: a model, the audit's plan with one eraser, and its rows. Goes out: the `Edit`, and the
record that a checkpoint keeps of its making. Refused: a plan with several erasers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from countergen_edit.edits import Edit
from countergen_edit.erasers import AffineErasure
from countergen_edit.errors import UserError
from countergen_edit.experiments.audit import AuditPlan, choose_layer, edit_name
from countergen_edit.experiments.fit_data import (
    SITES_WITHOUT_LAYERS,
    capture_fit_data,
    fitting_threads,
)
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel


def require_one_eraser(plan: AuditPlan) -> str:
    """The name of the plan's only eraser.

    Raises:
        UserError: there are several; a checkpoint holds one edit.
    """
    if len(plan.erasers) != 1:
        raise UserError(
            f"a checkpoint holds one edit, not {len(plan.erasers)} ({', '.join(plan.erasers)}): "
            "choose one, such as eraser=rlace; `countergen-edit audit` compares several"
        )
    return next(iter(plan.erasers))


def measured_layers(plan: AuditPlan, rows: Sequence[Row]) -> tuple[int | None, ...]:
    """The layers of the plan, or the one that the audit chose on its validation sets."""
    return plan.layers or (choose_layer(rows, require_one_eraser(plan)),)


def measured_edit(model: LanguageModel, plan: AuditPlan, rows: Sequence[Row]) -> tuple[str, Edit]:
    """The edit of which the audit's test rows speak, with its name in them.

    Fits are seeded, so fitting again gives the same directions, and works in a run that was
    finished before.
    """
    name = require_one_eraser(plan)
    layers = measured_layers(plan, rows)
    data = capture_fit_data(
        model,
        plan.fit,
        plan.keep,
        plan.neutral_fit,
        site=plan.site,
        layers=[layer for layer in layers if layer is not None] or None,
        positions=plan.positions,
    )
    with fitting_threads(data.at(layers[0])):
        erasures = {layer: data.fit(plan.erasers[name], layer).erasure_ for layer in layers}
    edit = Edit.at(plan.site, erasures)
    return edit_name(name, edit.rank, plan.site, layers), edit


def sample_edit(model: LanguageModel, plan: AuditPlan) -> Edit:
    """An edit of the plan's shape with directions of no meaning, to find out early what it can."""
    direction = np.ones((model.d_model, 1)) / np.sqrt(model.d_model)
    erasure = AffineErasure(direction, direction.T, np.ones(model.d_model))
    layers = (None,) if plan.site in SITES_WITHOUT_LAYERS else plan.layers or (0,)
    return Edit.at(plan.site, dict.fromkeys(layers, erasure))


def edit_record(
    label: str, plan: AuditPlan, config: Mapping[str, Any], manifest: Mapping[str, Any]
) -> dict[str, Any]:
    """What a checkpoint says of its making: enough to repeat the run."""
    name = require_one_eraser(plan)
    eraser = plan.erasers[name]
    default = type(eraser)().get_params()
    changed = {k: v for k, v in eraser.get_params().items() if v != default[k]}
    return {
        "edit": label,
        "eraser": name,
        "parameters": changed,
        "site": plan.site,
        "positions": plan.positions,
        **manifest,
        "config": dict(config),
    }


def parity_texts(plan: AuditPlan) -> list[str]:
    """Test prompts of both groups, and text about nobody, to compare the saved model on."""
    prompts = [v.text for s in plan.test[0].samples[:2] for v in s.variations[::7][:2]]
    return [*prompts, *plan.neutral[:4]]
