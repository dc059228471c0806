"""A classifier task in a run folder.

Comes in: a template bank and a model that fits the task. Goes out: rows; what the folder already
holds is not measured again.
"""

from __future__ import annotations

from typing import Any

from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics.classifier_tasks import ClassifierTask
from countergen_edit.metrics.rows import Row


def classifier_audit(
    task: ClassifierTask, bank: TemplateBank, model: Any, folder: RunFolder, seed: int = 0
) -> list[Row]:
    """Measure a task and return its rows.

    Args:
        task: what to measure.
        bank: the task's templates.
        model: what `task.load` or `task.wrap` returned.
        folder: where rows go.
        seed: the run's seed.

    Raises:
        UserError: the templates lack what the task needs.
    """
    unit = f"classifiers/{bank.task}"
    if not folder.done(unit):
        folder.record(unit, task.rows(bank.asked_of(model.name), model, seed))
    return folder.rows()
