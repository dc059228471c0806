"""The edit that fits the budgets: found on validation data, audited on test data.

Comes in: a model, an audit's plan with the erasers to try, and budgets. Goes out: the plan of an
audit of the chosen edit, or None where no edit fits. The search never sees a test set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from countergen_edit.experiments.audit import AuditPlan
from countergen_edit.experiments.cells import SweepPlan
from countergen_edit.experiments.pareto import Point, Tolerance, choose, front, points
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.experiments.study import Study
from countergen_edit.experiments.sweep import sweep
from countergen_edit.metrics import make_metric
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel


@dataclass(frozen=True)
class Found:
    """What a search ended with."""

    plan: AuditPlan | None
    """Of the chosen edit; None where none fits the budgets."""
    front: tuple[Point, ...]
    """The edits that no other beats, cheapest first; figures of validation data."""
    rows: tuple[Row, ...]
    """Validation rows of every edit tried but the chosen one, which its audit measures again."""


def search_plan(
    plan: AuditPlan,
    budgets: Tolerance,
    *,
    layers: tuple[int, ...] | None = None,
    combine: int = 3,
) -> SweepPlan:
    """The sweep behind a search: every eraser and layer, validation data for test data."""
    blind = replace(plan.metrics[0].subject, measured=())
    audit = replace(
        plan,
        test=plan.validation,
        agreement_test=plan.agreement_validation,
        metrics=(make_metric("r", blind),),
        layers=None,
    )
    return SweepPlan(
        audits={plan.fit[0].axis: audit},
        sites=(plan.site,),
        layers=layers,
        combine=combine,
        tolerance=budgets,
        mix=False,
    )


def find_edit(
    model: LanguageModel, plan: AuditPlan, searched: SweepPlan, folder: RunFolder
) -> Found:
    """Search, and plan the audit of what was found.

    Args:
        model: the model; unedited again when this returns.
        plan: the audit that the chosen edit is to pass, with every eraser to try.
        searched: what `search_plan` made of it.
        folder: where the rows of the search go; a killed search continues there.
    """
    rows = sweep(model, searched, folder)
    candidates = points(rows, "validation", searched.tolerance)
    ahead = tuple(front(candidates))
    best = choose(candidates)
    if best.cost > 1 or best.removed <= 0:
        return Found(None, ahead, tuple(_validation(rows, "", ())))
    [axis] = searched.audits
    cells = Study(model, searched, axis, folder).cells_of(best.edit)
    layers = tuple(cell.layer for cell in cells if cell.layer is not None)
    chosen = cells[0]
    of_chosen = replace(
        plan, erasers={chosen.name: chosen.eraser}, site=chosen.site, layers=layers or None
    )
    return Found(of_chosen, ahead, tuple(_validation(rows, chosen.name, layers)))


def _validation(rows: Sequence[Row], eraser: str, layers: Sequence[int]) -> list[Row]:
    """The validation rows of edits, without those of one eraser at some layers."""
    return [
        row
        for row in rows
        if row.split == "validation" and row.eraser
        if not (row.eraser == eraser and row.layer in layers)
    ]
