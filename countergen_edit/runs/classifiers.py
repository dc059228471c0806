"""A classifier task in a run folder: the unedited model, then the model under each edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32

from countergen_edit.core.errors import UserError
from countergen_edit.core.seeds import generator
from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.edits import UNCHANGED, Edit, NamedEdit, Placement, applied
from countergen_edit.erasers import ERASERS, BaseEraser, fit_eraser
from countergen_edit.erasers.affine import AffineErasure
from countergen_edit.erasers.base import fit_metadata
from countergen_edit.metrics.classifier_tasks import ClassifierTask
from countergen_edit.metrics.classifier_tasks.base import TaskText, kept_rows
from countergen_edit.metrics.rows import Row
from countergen_edit.models.capture import has_layers, hook_name
from countergen_edit.models.encoders import Encoder, ReadTokens
from countergen_edit.runs.fits import changed_params
from countergen_edit.runs.folder import RunFolder

EQUAL_MEANS = 1e-6
"""Share of the activations' size below which means of groups differ by rounding alone."""
MOST_COMPARED = 1000
"""Most texts on which answers before and after are compared."""


@dataclass(frozen=True)
class Where:
    """Where a classifier is edited, and at which tokens the eraser is fitted."""

    site: Literal["resid_post", "embed"] = "resid_post"
    layers: tuple[int, ...] | None = None
    """From 0; None is the last one, which the head reads."""
    positions: ReadTokens = "outputs"

    def layers_of(self, encoder: Encoder) -> tuple[int | None, ...]:
        """The layers, in the order in which the model comes to them; `embed` has none."""
        if not has_layers(self.site):
            return (None,)
        return (encoder.n_layers - 1,) if self.layers is None else tuple(sorted(self.layers))


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
    left = {name: eraser for name, eraser in erasers.items() if not folder.done(f"{unit}/{name}")}
    if not left:
        return folder.rows()
    # Texts that no edit is fitted on; templates without paraphrases have their own.
    texts = task.asked(bank, paraphrased=True) or task.asked(bank)
    if len(texts) > MOST_COMPARED:
        drawn = generator(seed, "answers", bank.task).choice(
            len(texts), MOST_COMPARED, replace=False
        )
        texts = [texts[i] for i in sorted(drawn.tolist())]
    before = model.answers(*task.inputs(texts))
    for name, eraser in left.items():
        named = fit_edit(task, bank, model, name, eraser, where)
        if not folder.has_edit(named.id):
            folder.keep(named, made_for=model.fingerprint)
        rows = task.rows_under(bank.unpublished, model, seed, named.edit)  # papers edit no model
        with applied(model.encoder, named.edit):
            rows += kept_rows(texts, before == model.answers(*task.inputs(texts)), seed)
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
        if not hasattr(model, "encoder"):
            raise UserError(f"{model.name} has no hidden states to edit: use eraser=none")
        for layer in where.layers_of(model.encoder):
            hook_name(model.encoder, where.site, layer)


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
    texts, edit, layers = task.asked(bank), UNCHANGED, where.layers_of(model.encoder)
    rows, read = model.encoded(*task.inputs(texts))
    how: dict[str, Any] = {"tokens": where.positions, "progress": "Capturing activations"}
    for layer in layers:
        with applied(model.encoder, edit):
            x, row_text = model.encoder.activations(
                rows, site=where.site, layer=layer, read=read, **how
            )
        erasure = _fitted(eraser, x, [texts[i] for i in row_text], where)
        edit += Edit((Placement(where.site, layer, erasure),))
    basis = [bank.fingerprint, model.fingerprint, where.site, layers, where.positions]
    basis += [ERASERS.name_of(eraser), eraser.get_params(deep=False)]
    about: dict[str, Any] = {"basis": basis, "baseline": eraser.is_baseline}
    return NamedEdit.of(edit, name, changed_params(eraser), **about)


def _fitted(
    eraser: BaseEraser, x: Float32[np.ndarray, "row d"], of_row: Sequence[TaskText], where: Where
) -> AffineErasure:
    """The map of an eraser, fitted with what is known of the rows; none is to be kept."""
    group = np.array([one.group for one in of_row])
    means = np.stack([x[group == name].mean(axis=0) for name in np.unique(group)])
    if np.ptp(means, axis=0).max() <= EQUAL_MEANS * np.abs(x).max():
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
    return fit_eraser(eraser, x, group, **fit_metadata(eraser, offered)).erasure_
