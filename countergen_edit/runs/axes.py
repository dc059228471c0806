"""Edits over several axes in one model: each fitted on what those before it leave.

Comes in: an audit for each axis, in their order, and edits that the model has from the beginning.
Goes out: rows and edits in one run folder. Units of work, in order: for each axis its whole audit,
on the model with the edits so far; last, on test data, every axis under the edit of all. Figures
are against the unedited model, so that the budgets are for all edits together. What one axis
keeps (its grammar) every other axis keeps too, of people it is not measured on. An edit below an
earlier one in the forward pass changes what that meets, which was not fitted on it: what came of
it, the last figures say. Refused: several erasers, two axes of one name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from countergen_edit.data.counterfactual import CounterfactualSet
from countergen_edit.data.splits import without_overlap
from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.core.errors import UserError
from countergen_edit.runs.audit import Audit
from countergen_edit.runs.run_folder import RunFolder
from countergen_edit.runs.task_audit import TaskAudit
from countergen_edit.runs.units import units
from countergen_edit.models import LanguageModel


@dataclass(frozen=True)
class Axes:
    """The axes of one edit.

    Attributes:
        plans: an audit for each axis that is fitted, alike but for their tasks.
        before: edits that the model has from the beginning.
        earlier: what those were made for, which is measured and not fitted again.
    """

    plans: Sequence[Audit]
    before: NamedEdit | None = None
    earlier: Sequence[Task] = ()

    def __post_init__(self) -> None:
        for plan in self.plans:
            if len(plan.erasers) != 1:
                raise UserError(
                    f"edits over several axes are of one eraser, not {len(plan.erasers)} "
                    f"({', '.join(plan.erasers)}): choose one, such as eraser=rlace"
                )
        names = [task.name for task in self.tasks]
        if len(set(names)) < len(names):
            raise UserError(f"two axes of the edit are called {max(names, key=names.count)!r}")
        kept = [data for task in self.tasks for data in task.keep]
        own = [replace(plan, task=_keeping(plan.task, kept)) for plan in self.plans]
        object.__setattr__(self, "plans", own)

    @property
    def tasks(self) -> list[Task]:
        """Every task, in the order in which their edits are made."""
        return [*self.earlier, *(plan.task for plan in self.plans)]

    def check(self, model: LanguageModel) -> None:
        """Find what would stop the run half way.

        Raises:
            UserError: as `Audit.check`; or a metric finds what it cannot work with in a task that
                is measured alone.
        """
        for plan in self.plans:
            plan.check(model)
            for task in self.earlier:
                for metric in plan.metrics:
                    metric.bound(task).check(model)

    def run(self, model: LanguageModel, folder: RunFolder) -> None:
        """Run what is left.

        Args:
            model: without the edits before; unedited again when this returns.
            folder: where rows and edits go; units it already holds are not run again.
        """

        def running(plan: Audit) -> TaskAudit:
            return TaskAudit(plan, model, folder, partial("{}/{}".format, plan.task.name))

        whole, audits = self.before, []
        for plan in self.plans:
            audits.append(running(replace(plan, before=whole)))
            [whole] = audits[-1].finish()
        assert whole is not None
        about = f"all axes, {whole.label}"
        with units(folder) as run:
            for task in self.earlier:
                audit = running(replace(self.plans[0], task=task))
                study = audit.study
                measure = partial(study.measure, None, "test", study.metrics)
                run(audit.unit("unedited"), f"unedited model: {task.name}", measure)
                if self.before is not None:
                    audit.test(run, self.before, self.before.label)
                audit.test(run, whole, about)
            for audit in audits[:-1]:
                audit.test(run, whole, about)


def _keeping(task: Task, kept: Sequence[CounterfactualSet]) -> Task:
    """The task that keeps what others keep too, but for templates and people it is measured on."""
    measured = (*task.validation, *task.test, *task.agreement.values(), *task.legitimate_sets)
    own = {(data.axis, data.name) for data in task.keep}
    others: list[CounterfactualSet] = []
    for data in kept:
        is_known = (data.axis, data.name) in own or data in others
        if not is_known and (left := without_overlap(data, measured)) is not None:
            others.append(left)
    return replace(task, keep=(*task.keep, *others))
