"""A classifier task in a run folder: the unedited model, then the model under each edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float32

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.edits import UNCHANGED, Edit, NamedEdit, Placement, applied
from countergen_edit.edits.record import edit_id
from countergen_edit.erasers import ERASERS, BaseEraser, fit_eraser
from countergen_edit.erasers.base import fit_metadata
from countergen_edit.metrics.classifier_tasks import ClassifierTask
from countergen_edit.metrics.classifier_tasks.base import TaskText, kept_rows
from countergen_edit.metrics.rows import Row
from countergen_edit.models.capture import has_layers, hook_name
from countergen_edit.models.encoders import Encoder, Tokens
from countergen_edit.runs.fits import changed_params
from countergen_edit.runs.folder import RunFolder

ALIKE = 1e-6
"""Share of the activations' size below which means of groups differ by rounding alone."""


@dataclass(frozen=True)
class Where:
    """Where a classifier is edited, and at which tokens the eraser is fitted."""

    site: str = "resid_post"
    layers: tuple[int, ...] | None = None
    """From 0; None is the last one, which the head reads."""
    positions: Tokens = "outputs"

    def layers_of(self, encoder: Encoder) -> tuple[int | None, ...]:
        """The layers, in the order in which the model comes to them; `embed` has none."""
        if not has_layers(self.site):
            return (None,)
        return (encoder.n_layers - 1,) if self.layers is None else tuple(sorted(self.layers))


def encoder_of(model: Any) -> Encoder:
    """What edits attach to; `UserError` for a model without hidden states."""
    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, Encoder):
        raise UserError(f"{model.name} has no hidden states to edit: use eraser=none")
    return encoder


def fit_edit(
    task: ClassifierTask,
    bank: TemplateBank,
    model: Any,
    name: str,
    eraser: BaseEraser,
    where: Where,
) -> NamedEdit:
    """Fit an eraser at each layer, each on what those before it leave, and name the edit.

    It sees the original templates alone, so that paraphrases are templates it was not fitted on.
    """
    encoder = encoder_of(model)
    asked = list(task.asked(bank))
    rows, read = task.encoded(model, asked)
    how: dict[str, Any] = {"site": where.site, "tokens": where.positions, "read": read}
    edit = UNCHANGED
    for layer in where.layers_of(encoder):
        layers = [] if layer is None else [layer]
        with applied(encoder, edit):
            found = encoder.activations(
                rows, layers=layers, progress="Capturing activations", **how
            )
        of_row = [asked[i] for i in found.row_text]
        erasure = _fitted(eraser, found.values[where.site][0], of_row, where).erasure_
        edit += Edit((Placement(where.site, layer, erasure),))
    about = basis(bank, model, eraser, where)
    is_baseline = eraser.is_baseline
    return NamedEdit.of(edit, name, changed_params(eraser), basis=about, baseline=is_baseline)


def basis(bank: TemplateBank, model: Any, eraser: BaseEraser, where: Where) -> list[object]:
    """All that such an edit depends on, from which its id is made."""
    layers = where.layers_of(encoder_of(model))
    about = [bank.fingerprint, model.fingerprint, where.site, layers, where.positions]
    return [*about, ERASERS.name_of(eraser), eraser.get_params(deep=False)]


def _fitted(
    eraser: BaseEraser, x: Float32[np.ndarray, "row d"], of_row: Sequence[TaskText], where: Where
) -> BaseEraser:
    """A clone of the eraser, fitted with what is known of the rows; none is to be kept."""
    group = np.array([one.group for one in of_row])
    means = np.stack([x[group == name].mean(axis=0) for name in np.unique(group)])
    if np.ptp(means, axis=0).max() <= ALIKE * np.abs(x).max():
        raise UserError(
            f"at site {where.site!r} the rows of positions={where.positions} are the same for "
            "every group: there is nothing to erase; use edit.positions=all, or a later layer"
        )
    offered = {
        "contexts": np.array([one.context for one in of_row]),
        "keep": np.zeros(len(of_row), dtype=bool),
        "pairs": np.array([f"{one.context} {one.pair}" for one in of_row]),
        "people": np.array([one.person for one in of_row]),
        "families": np.array([one.family for one in of_row]),
    }
    return fit_eraser(eraser, x, group, **fit_metadata(eraser, offered))


TEXTS = 1000
"""Most texts on which answers before and after are compared."""


def classifier_audit(
    task: ClassifierTask,
    bank: TemplateBank,
    model: Any,
    folder: RunFolder,
    seed: int = 0,
    erasers: Mapping[str, BaseEraser] | None = None,
    where: Where | None = None,
) -> list[Row]:
    """Measure a task on the unedited model, then under the edit of each eraser; all rows.

    `model` is what `task.load` or `task.wrap` returned; `erasers` are by their names in the run.
    `UserError` if the templates lack what the task needs, or an eraser or place does not fit.
    """
    erasers, where = erasers or {}, where or Where()
    check_edits(model, erasers, where)
    unit = f"classifiers/{bank.task}"
    if not folder.done(unit):
        folder.record(unit, task.rows(bank.for_model(model.name), model, seed))
    left = {name: own for name, own in erasers.items() if not folder.done(f"{unit}/{name}")}
    if not left:
        return folder.rows()
    asked = _sample(task, bank, seed)
    before = task.answers(model, asked)
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
        if eraser.trains_weights:
            raise UserError(
                f"eraser={name} is trained on a language model's likelihoods, which a classifier "
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
