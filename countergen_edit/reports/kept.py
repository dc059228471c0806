"""The edit of a run that is worth keeping: which it is, used for a while, and saved for good.

Comes in: a run. Goes out: the record of its best edit, and a `Kept` that attaches it to a model or
saves it as a checkpoint with its card. Refused: saving without the model that it was fitted on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from countergen_edit.core.errors import UserError
from countergen_edit.decisions.judgement import JUDGEMENT, RECOMMENDED
from countergen_edit.edits import EditRecord, NamedEdit, applied
from countergen_edit.edits.checkpoints import (
    Form,
    Parity,
    Saved,
    edits_in_record,
    folded_into,
    save_checkpoint,
)
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.models import LanguageModel
from countergen_edit.reports.render.card import model_card, parameters
from countergen_edit.reports.search import significant_bias, worthwhile

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run


@dataclass(frozen=True)
class Kept:
    """An edit with the run that measured it."""

    named: NamedEdit
    run: Run = field(repr=False)

    @property
    def label(self) -> str:
        """What people call it."""
        return self.named.label

    @contextmanager
    def on(self, model: LanguageModel | None = None) -> Iterator[LanguageModel]:
        """The model with the edit attached; afterwards the unedited model.

        Raises:
            UserError: neither the run nor the caller has a model, or the edit is of another width.
        """
        own = self._model(model)
        with applied(own, self.named.edit) as edited:
            yield edited

    def save(
        self,
        directory: Path | str,
        form: str = "auto",
        overwrite: bool = False,
        model: LanguageModel | None = None,
    ) -> Saved:
        """Save the edited model with its card, proven equal in a fresh process.

        Args:
            directory: the folder to make.
            form: `folded`, `carried`, or `auto`.
            overwrite: replace a checkpoint that is already there, once the new one is whole.
            model: the unedited model, where the run was read from its folder alone.

        Raises:
            UserError: there is no model, the target cannot be written, or the saved model differs.
        """

        own = self._model(model)

        def card(chosen: Form, parity: Parity) -> str:
            return model_card(self.run, self.named.record, chosen, parity, folded_into(own))

        return save_checkpoint(
            own,
            self.named.edit,
            Path(directory).expanduser(),
            form=form,
            texts=self.run.manifest.get("texts", ()),
            record=self.about(),
            card=card,
            overwrite=overwrite,
        )

    def about(self) -> dict[str, Any]:
        """What a checkpoint says of its making: enough to repeat the run."""
        record = self.named.record
        return {
            "edits": edits_in_record(record),
            "record": record.to_dict(),
            "edit": record.label,
            "id": record.id,
            "eraser": record.eraser,
            "parameters": parameters(record),
            "site": "+".join(record.sites),
            **{key: value for key, value in self.run.manifest.items() if key != "texts"},
            "config": dict(self.run.config),
        }

    def _model(self, model: LanguageModel | None) -> LanguageModel:
        own = model or self.run.model
        if own is None:
            raise UserError(
                "the run was read without its model: give the unedited model, "
                f"{self.run.manifest.get('model', '')!r}, as model="
            )
        return own


def best_record(run: Run) -> EditRecord | None:
    """The edit of a run of one task that is worth keeping; see `Run.best`."""
    choices = run.results.of("cost", "validation")
    if choices:
        if not significant_bias(run.results):
            return None
        fit = {row.edit for row in choices if worthwhile(row)}
        chosen = run.results.chosen
        return chosen if chosen is not None and chosen.id in fit else None
    edits = [edit for edit in run.results.edits if not edit.baseline]
    if len(edits) < 2:
        return next(iter(edits), None)
    if judged := {row.edit: row.detail for row in run.results.of(JUDGEMENT)}:
        if (named := recommended(run)) is not None:
            return named
        edits = [e for e in edits if judged.get(e.id, {}).get("word") == RECOMMENDED]
    bias = next((q for q in run.quantities() if q.kind == "bias" and q.drawn), None)
    left = {} if bias is None else {e: row.value for e, row in bias.rows.items()}
    known = [(v, e) for e in edits if (v := left.get(e.id)) is not None and within_budgets(run, e)]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def recommended(run: Run) -> EditRecord | None:
    """The one edit that the verdict on a run of one task recommends by name."""
    named = [row.edit for row in run.results.of(JUDGEMENT) if row.detail["named"]]
    return run.results.records.get(named[0]) if named else None


def record_of_all(run: Run) -> EditRecord | None:
    """The edit of a run of several tasks that each of them was measured under, if there is one."""
    parts = run.results.by_task().values()
    of_each = [{edit.id for edit in part.edits} for part in parts]
    edits = [e for e in run.results.edits if not e.baseline and all(e.id in ids for ids in of_each)]
    return edits[-1] if edits else None


def within_budgets(run: Run, edit: EditRecord) -> bool:
    """Whether no cost of the run's manifest is above its budget on test data."""
    for name in run.budgets:
        cost = run.cost(name)
        if cost is None:
            continue
        before, after = (
            [row for row in run.results.rows if (row.edit, row.split) == (e, "test")]
            for e in (UNEDITED, edit.id)
        )
        degradation = cost.worst(before, after)
        if degradation is not None and degradation.share > 1:
            return False
    return True
