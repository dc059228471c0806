"""A classifier task in a run folder: the unedited model, then the model under each edit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.edits import applied
from countergen_edit.edits.record import edit_id
from countergen_edit.erasers import BaseEraser
from countergen_edit.metrics.classifier_tasks import ClassifierTask
from countergen_edit.metrics.classifier_tasks.base import TaskText, kept_rows
from countergen_edit.metrics.rows import Row
from countergen_edit.models.capture import hook_name
from countergen_edit.runs.classifier_edits import (
    Where,
    basis,
    encoder_of,
    fit_edit,
)
from countergen_edit.runs.folder import RunFolder

TEXTS = 1000
"""Most texts on which answers before and after are held against each other."""


def classifier_audit(
    task: ClassifierTask,
    bank: TemplateBank,
    model: Any,
    folder: RunFolder,
    seed: int = 0,
    erasers: Mapping[str, BaseEraser] | None = None,
    where: Where | None = None,
) -> list[Row]:
    """Measure a task, before and after, and return its rows.

    Args:
        task: what to measure.
        bank: the task's templates.
        model: what `task.load` or `task.wrap` returned.
        folder: where rows and edits go.
        seed: the run's seed.
        erasers: by their names in the run; without any the model is measured unedited.
        where: site, layers and tokens of the edits.

    Raises:
        UserError: the templates lack what the task needs, or an eraser or place does not fit.
    """
    erasers, where = erasers or {}, where or Where()
    check_edits(model, erasers, where)
    unit = f"classifiers/{bank.task}"
    if not folder.done(unit):
        folder.record(unit, task.rows(bank.for_model(model.name), model, seed))
    left = {name: own for name, own in erasers.items() if not folder.done(f"{unit}/{name}")}
    asked = _sample(task, bank, seed) if left else []
    before = task.answers(model, asked) if left else None
    for name, eraser in left.items():
        key = edit_id(name, basis(bank, model, eraser, where))
        if not folder.has_edit(key):
            named = fit_edit(task, bank, model, name, eraser, where)
            folder.keep(named, made_for=model.fingerprint)
        named = folder.edit(key)
        edited = partial(applied, encoder_of(model), named.edit)
        rows = task.rows_under(bank.unpublished, model, seed, edited)  # papers edit no model
        with edited():
            rows += kept_rows(asked, before == task.answers(model, asked), seed)
        folder.record(f"{unit}/{name}", [replace(row, **named.record.columns) for row in rows])
    return folder.rows()


def check_edits(model: Any, erasers: Mapping[str, BaseEraser], where: Where) -> None:
    """Refuse what no edit could be made of, before anything is measured."""
    for name, eraser in erasers.items():
        eraser.check()
        if eraser.n_steps:
            raise UserError(
                f"eraser={name} is refined on a language model's likelihoods, which a classifier "
                "does not give: use one of closed form, such as eraser=leace"
            )
        for layer in where.layers_of(encoder_of(model)):
            hook_name(encoder_of(model), where.site, layer)


def _sample(task: ClassifierTask, bank: TemplateBank, seed: int) -> list[TaskText]:
    """Texts that no edit was fitted on, the paraphrases', drawn by the seed.

    Templates without paraphrases have their own.
    """
    asked = list(task.asked(bank, paraphrased=True)) or list(task.asked(bank))
    if len(asked) <= TEXTS:
        return asked
    drawn = generator(seed, "answers", bank.task).choice(len(asked), TEXTS, replace=False)
    return [asked[i] for i in sorted(drawn.tolist())]
