"""The audit: measure, find, project out, measure again, and say what it cost.

Comes in: a model, a task, erasers and metrics. Goes out: rows and edits in a run folder. Units of
work, in order: the unedited model; each eraser at every candidate layer, on validation data; then,
on test data, each eraser's edit at its chosen layer and random directions of equal rank there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.erasers import BaseEraser
from countergen_edit.errors import UserError
from countergen_edit.experiments.fit_data import Positions, Sinks
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.experiments.study import Cell, Study, check_study, least
from countergen_edit.experiments.units import units
from countergen_edit.metrics.base import Metric
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel


@dataclass(frozen=True)
class Audit:
    """What an audit measures, fits and edits.

    Attributes:
        task: what is asked of whom, in which texts.
        erasers: by their name in the run.
        metrics: what is measured, costs among them.
        site: where edits go.
        layers: layers edited together; None chooses the single layer that leaves least bias on
            validation data.
        positions: the tokens on which erasers are fitted.
        sinks: whether edits leave attention sinks alone (`leave`) or not (`edit`).
        seed: of everything that is drawn.
    """

    task: Task
    erasers: Mapping[str, BaseEraser]
    metrics: Sequence[Metric]
    site: str = "resid_post"
    layers: tuple[int, ...] | None = None
    positions: Positions = "outputs"
    sinks: Sinks = "leave"
    seed: int = 0

    def check(self, model: LanguageModel) -> None:
        """Find what would stop the audit half way.

        Raises:
            UserError: as `check_study`; or there are no validation sets to choose a layer by.
        """
        if self.layers is None and not self.task.validation:
            raise UserError("edit.layers=best needs a set under data.validation; or name a layer")
        check_study(
            model,
            self.task,
            self.erasers,
            self.metrics,
            sites=(self.site,),
            layers=self.layers,
            positions=self.positions,
        )

    def run(self, model: LanguageModel, folder: RunFolder) -> None:
        """Run what is left of the audit.

        Args:
            model: unedited again when this returns.
            folder: where rows and edits go; units it already holds are not run again.
        """
        study = Study(
            model,
            self.task,
            self.metrics,
            folder,
            sites=(self.site,),
            layers=self.layers,
            positions=self.positions,
            sinks=self.sinks,
            seed=self.seed,
        )
        with units(folder, 1 + 3 * len(self.erasers)) as run:
            run("unedited", "Measuring the unedited model", partial(_unedited, study))
            for name, eraser in self.erasers.items():
                cells = partial(self._cells, study, name, eraser)
                work = partial(_candidates, study, cells)
                run(f"layers/{name}", f"Fitting {name} at every layer", work)
            for name, eraser in self.erasers.items():
                edit = self._edit(study, self._cells(study, name, eraser))
                run(f"test/{edit.id}", f"Measuring {name}", partial(_tested, study, edit))
                control = study.control(edit)
                description = f"Measuring random directions of rank {control.record.rank}"
                run(f"test/{control.id}", description, partial(_tested, study, control))

    def _cells(self, study: Study, name: str, eraser: BaseEraser) -> list[Cell]:
        layers = study.candidate_layers(self.site)
        return [Cell(self.site, layer, name, eraser) for layer in layers]

    def _edit(self, study: Study, cells: Sequence[Cell]) -> NamedEdit:
        """All cells as one edit where layers are named, else the one that leaves least bias."""
        if self.layers is not None:
            return study.combination(cells)
        by_id = {study.id_of(cell): cell for cell in cells}
        order = {edit: cell.layer for edit, cell in by_id.items()}
        return study.edit(by_id[least(study.folder.rows(), study.bias.criterion, order)])


def _unedited(study: Study) -> list[Row]:
    """Every figure of the model as it came."""
    tested = study.measure(None, "test", study.metrics)
    return [*tested, *study.measure(None, "validation", study.quick)]


def _candidates(study: Study, cells: partial[list[Cell]]) -> list[Row]:
    """Certificate and validation figures of one eraser at every candidate layer."""
    rows: list[Row] = []
    for cell in cells():
        rows += study.certificate(cell)
        rows += study.measure(study.edit(cell), "validation", study.quick)
    return rows


def _tested(study: Study, edit: NamedEdit) -> list[Row]:
    """Every test figure under an edit; a control leaves out what has no baseline."""
    metrics = [m for m in study.metrics if m.has_baseline or not edit.record.baseline]
    return study.measure(edit, "test", metrics)
