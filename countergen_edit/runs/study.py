"""A model and a task, and what is done with them: fit, keep, measure.

Comes in: a model, a task, metrics and a run folder. Goes out: edits, each fitted once and kept in
the run from that moment, and rows under them. Audits and searches are made of nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from countergen_edit.data.axis import Split
from countergen_edit.data.task import Task
from countergen_edit.decisions.judgement import judgements
from countergen_edit.edits import NamedEdit, applied
from countergen_edit.erasers import fitting_threads
from countergen_edit.core.errors import NotWrittenError, UserError
from countergen_edit.runs.cells import Cell
from countergen_edit.runs.files import FAILED
from countergen_edit.runs.fits import Fits
from countergen_edit.runs.gates import openings
from countergen_edit.runs.run_folder import RunFolder, read_records
from countergen_edit.metrics.base import Cost, MeasuredSplit, Metric
from countergen_edit.metrics.chosen_by import bias_of, default_bias
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.gates import gate_rows
from countergen_edit.metrics.guardedness import certificate_rows
from countergen_edit.metrics.refinement import refinement_rows
from countergen_edit.metrics.results import STORE
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel
from countergen_edit.models.progress import announce
from countergen_edit.core.seeds import unit_seed

MEASURED: tuple[Split, ...] = ("validation", "test")


class Study(Fits):
    """One task on one model, in progress in a run folder.

    Args:
        model: the model; unedited whenever a method has returned.
        task: what is asked of whom.
        metrics: what is measured.
        folder: where rows, edits and texts go.
        resumed: blocks from which the model goes on, where an edit leaves all below as it is; None
            takes those of all candidates. An edit elsewhere goes on from the nearest below.
        fits: where edits may go, and the further arguments of `Fits`. What is measured under an
            edit is measured with all that the model is to have besides; the unedited model has
            none of it.
    """

    def __init__(
        self,
        model: LanguageModel,
        task: Task,
        metrics: Sequence[Metric],
        folder: RunFolder,
        *,
        resumed: Sequence[int] | None = None,
        **fits: Any,
    ) -> None:
        super().__init__(model, task, folder, **fits)
        self.metrics = [metric.bound(task) for metric in metrics]
        self.bias = bias_of(self.metrics) or default_bias().bound(task)
        self.store = folder.path / STORE / task.name
        candidates = [layer for site in self.sites for layer in self.candidate_layers(site)]
        intact = candidates if resumed is None else resumed
        # Where nothing is edited there is nothing to go on from.
        measured = self.resuming(intact) if self.sites else model
        self.context = EvaluationContext(measured, self.store, self.seed)

    @property
    def costs(self) -> list[Cost]:
        """The metrics that say what an edit costs."""
        return [metric for metric in self.metrics if isinstance(metric, Cost)]

    @property
    def quick(self) -> list[Metric]:
        """What every candidate is measured by: the bias that is chosen by, and what is not slow."""
        others = [m for m in self.metrics if not m.is_slow and m is not self.bias]
        return [self.bias, *others]

    def announce(self, candidates: int) -> None:
        """One line on the size of the run: its candidates, and forward passes to measure one."""
        passes = ", ".join(
            f"{_passes(self.task, split):,} on {split} data"
            for split in MEASURED
            if self.task.sets(split)
        )
        noun = "candidate" if candidates == 1 else "candidates"
        announce(f"{candidates} {noun}; forward passes to measure one: {passes}")

    def own_rows(self) -> list[Row]:
        """What the run has recorded of this task so far."""
        return [row for row in self.folder.rows() if row.task == self.task.name]

    def failure(self, cells: Sequence[Cell], kind: type[Exception] = Exception) -> list[Row]:
        """The error that the first fit of cells ended with that could not be made, if any.

        Args:
            cells: in the order in which they are fitted.
            kind: of errors that are an eraser's own; others are raised.

        Raises:
            UserError: there is no room for activations or rows, which is no eraser's fault.
        """
        for cell in cells:
            if not self.folder.has_edit(self.id_of(cell)):
                self.capture(cell)
                try:
                    self.fit(cell)
                except NotWrittenError:  # a full disk is no fault of an eraser
                    raise
                except kind as error:
                    return [self._error_row(cell, error)]
        return []

    def _error_row(self, cell: Cell, error: Exception) -> Row:
        """What stands for a cell whose fit failed."""
        wanted = cell.eraser.get_params().get("rank")
        name = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        return Row(
            FAILED,
            None,
            task=self.task.name,
            axis=self.task.axis.name,
            edit=self.id_of(cell),
            eraser=cell.name,
            site=cell.site,
            layers=tuple(c.layer for c in (*cell.after, cell) if c.layer is not None),
            rank=wanted if isinstance(wanted, int) else 0,  # it may be left to the fit
            seed=self.seed,
            detail={"error": f"{name}{error}"},
        )

    def certificate(self, cell: Cell) -> list[Row]:
        """What is known of a fit: what probes still read, how it was refined, where a gate opened.

        Folds of probes never share a name.
        """
        data = self._data(cell)
        state = unit_seed(self.seed, "certificate", cell.layer) % 2**32
        eraser = self.fit(cell)
        with fitting_threads(data.at(cell.layer)):
            certificate = data.certify(eraser, cell.layer, state)
        n = int((data.used(eraser, cell.layer)[0] & ~data.keep).sum())
        anew, remark = eraser.refit_in_folds, eraser.note_
        rows = certificate_rows(certificate, self.task, n, self.seed, refitted=anew, remark=remark)
        rows += refinement_rows(getattr(eraser, "curve_", ()), self.task, self.seed)
        named = self.part(cell)
        [place] = named.edit.placements
        with applied(self.model, self._before(cell)) as model:
            rows += gate_rows(openings(model, self.task, place, self.scratch), self.seed)
        return self.marked(rows, named, "validation")

    def measure(
        self, edit: NamedEdit | None, split: MeasuredSplit, metrics: Sequence[Metric]
    ) -> list[Row]:
        """The rows of some metrics under an edit."""
        rows = [row for metric in metrics for row in metric.measure(self.context, edit, split)]
        return self.marked(rows, edit, split)

    def judge(self, edits: Sequence[NamedEdit]) -> list[Row]:
        """A row `judgement` for each edit, from the test rows so far."""
        records = read_records(self.folder.path)
        return judgements(self.own_rows(), records, [edit.id for edit in edits], self.costs)

    def removed(self, edit: NamedEdit, split: MeasuredSplit) -> list[Row]:
        """How much of the bias that is chosen by is gone over a split's sets together."""
        row = self.bias.removed(self.context, edit, split)
        return [] if row is None else self.marked([row], edit, split)

    def marked(
        self, rows: Sequence[Row], edit: NamedEdit | None, split: MeasuredSplit
    ) -> list[Row]:
        """Rows with the columns of their edit, task and split."""
        columns = {} if edit is None else edit.record.columns
        return [
            replace(row, **columns, task=self.task.name, split=row.split or split) for row in rows
        ]


def _passes(task: Task, split: Split) -> int:
    """Texts that are scored to measure a split: each prompt with each output, and neutral texts.

    Test figures are also of the sets that erasers are fitted on, and of other axes.
    """
    more = (*task.fit, *task.other_axes) if split == "test" else ()
    agreement = task.agreement.get(split)
    sets = [
        *task.sets(split),
        *more,
        *([agreement] if agreement else []),
        *task.legitimate_differences.get(split, ()),
    ]
    scored = sum(len(s.variations) * len(s.outputs) for data in sets for s in data.samples)
    return scored + len(task.neutral.get(split, ()))
