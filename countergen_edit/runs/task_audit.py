"""The audit of one task: the unedited model, candidate layers, the choice, test figures.

Comes in: the plan of an audit and a model. Goes out: rows and edits in the run folder, unit by unit
in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from countergen_edit.core.errors import UserError
from countergen_edit.decisions import JUDGEMENT
from countergen_edit.decisions.selection import Point, choose, points
from countergen_edit.decisions.significance import significant_bias
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel
from countergen_edit.runs.cells import Cell
from countergen_edit.runs.files import FAILED
from countergen_edit.runs.run_folder import RunFolder
from countergen_edit.runs.screening import Screening
from countergen_edit.runs.study import Study
from countergen_edit.runs.units import Run, units

if TYPE_CHECKING:
    from countergen_edit.runs.audit import Audit


class TaskAudit:
    """The audit of one task, in progress.

    Args:
        plan: with erasers.
        model: unedited again when a method has returned.
        folder: where rows and edits go.
        unit: what a unit of work is called in the folder.
    """

    def __init__(
        self,
        plan: Audit,
        model: LanguageModel,
        folder: RunFolder,
        unit: Callable[[str], str] = str,
    ) -> None:
        halving = plan.halving if plan.layers is None else None
        study = Study(
            model,
            plan.task,
            plan.metrics,
            folder,
            sites=(plan.site,),
            layers=plan.layers,
            positions=plan.positions,
            resumed=None if halving is None else halving.grid(model.n_layers),
            skip_attention_sinks=plan.skip_attention_sinks,
            fitted=plan.fitted,
            before=plan.before,
            seed=plan.seed,
        )
        self.plan, self.study, self.unit = plan, study, unit
        layers = study.candidate_layers(plan.site)
        self.cells = {
            name: [Cell(plan.site, layer, name, eraser) for layer in layers]
            for name, eraser in plan.erasers.items()
        }
        if plan.layers is not None:
            self.cells = {name: study.together(cells) for name, cells in self.cells.items()}
        pools = [[cells] for cells in self.cells.values()]
        self.screening = Screening(study, halving, pools, self._attempt)

    def finish(self) -> list[NamedEdit]:
        """Run what is left; the edit of each eraser that test figures are of.

        Raises:
            UserError: no eraser could be fitted.
        """
        self.study.announce(self.screening.total)
        with units(self.study.folder) as run:
            return self.run(run)

    def run(self, run: Run) -> list[NamedEdit]:
        """Every unit, in order."""
        study, screening = self.study, self.screening
        run.stage("unedited model", 1)
        run(self.unit("unedited"), "unedited model", self._unedited)
        screening.run(run, self.unit)
        run.stage("candidates on validation data", len(screening.finalists))
        for cell in screening.finalists:
            name = cell.unit.removeprefix("cell/")
            run(self.unit(f"layers/{name}"), name, partial(self._candidate, cell))
        if self.plan.layers is None:
            run(self.unit("choice"), "choice", self._choice)
        found = {name: self._edit(cells) for name, cells in self.cells.items()}
        by_name = {name: edit for name, edit in found.items() if edit is not None}
        if not by_name:
            raise UserError(self._why_none())
        run.stage("test data", 2 * len(by_name))
        for name, edit in by_name.items():
            self.test(run, edit, name, self.cells[name])
        edits = [*by_name.values()]
        groups = [
            group
            for name, way in self.plan.baselines.items()
            for group in way.groups(study, name, edits)
        ]
        if groups:
            tried = sum(len(group) for group in groups if len(group) > 1)
            run.stage("baselines", tried + len(groups))
        for group in groups:
            self._beside(run, group)
        run(self.unit(JUDGEMENT), JUDGEMENT, partial(study.judge, edits))
        return edits

    def test(
        self,
        run: Run,
        edit: NamedEdit,
        name: str,
        cells: Sequence[Cell] = (),
    ) -> None:
        """Every test figure under an edit, and under random directions at its places.

        Args:
            run: runs units.
            edit: fitted here or not.
            name: what a person reads while it runs.
            cells: of an edit that is fitted here, what it is of.
        """
        work = partial(self._tested, edit, cells)
        run(self.unit(f"test/{edit.id}"), f"test data: {name}", work)
        control = self.study.control(edit)
        about = f"test data: random directions of rank {control.record.rank}"
        run(self.unit(f"test/{control.id}"), about, partial(self._tested, control, ()))

    def _beside(self, run: Run, group: Sequence[NamedEdit]) -> None:
        """Of a group of edits beside the audit's the only one, or the best, on test data."""
        for edit in group if len(group) > 1 else ():
            about = f"validation data: {edit.label}"
            run(self.unit(f"beside/{edit.id}"), about, partial(self._on_validation, edit))
        ids = {edit.id for edit in group}
        best = choose(self._points(ids)).edit if len(group) > 1 else group[0].id
        [edit] = [edit for edit in group if edit.id == best]
        work = partial(self._tested, edit, ())
        run(self.unit(f"test/{edit.id}"), f"test data: {edit.label}", work)

    def _unedited(self) -> list[Row]:
        """Every figure of the unedited model."""
        study = self.study
        tested = study.measure(None, "test", study.metrics)
        known = study.measure(None, "validation", study.quick)
        return [*tested, *known, *significant_bias(known)]

    def _attempt(self, cell: Cell, figures: Callable[[NamedEdit], list[Row]]) -> list[Row]:
        """What figures say of a cell's edit, or why its eraser refused to be fitted.

        Where nothing is left to erase some erasers refuse and others do not, which go on.
        """
        failed = self.study.failure([*cell.after, cell], UserError)
        return failed or figures(self.study.joined([*cell.after, cell]))

    def _candidate(self, cell: Cell) -> list[Row]:
        """Validation figures of one edit, or why there is none."""
        return self._attempt(cell, partial(self._figures, cell))

    def _figures(self, cell: Cell, edit: NamedEdit) -> list[Row]:
        """Validation figures of one edit; its certificate where every candidate gets one.

        An edit that was fitted under others is measured with them.
        """
        rows = [] if self.screening.samples else self.study.certificate(cell)
        return rows + self._on_validation(edit)

    def _on_validation(self, edit: NamedEdit) -> list[Row]:
        """All that a choice goes by."""
        rows = self.study.measure(edit, "validation", self.study.quick)
        return rows + self.study.removed(edit, "validation")

    def _points(self, ids: Collection[str]) -> list[Point]:
        """Some edits by their figures on all validation data."""
        every = points(self.study.own_rows(), "validation", self.study.costs, baselines=True)
        return [point for point in every if point.edit in ids]

    def _choice(self) -> list[Row]:
        """Of each eraser the chosen edit, and whether it keeps within the budgets."""
        removed = {
            row.edit: row
            for row in self.study.own_rows()
            if (row.metric, row.split) == ("bias_removed", "validation")
        }
        rows = []
        for cells in self.cells.values():
            candidates = self._points({self.study.id_of(cell) for cell in cells})
            if not candidates:
                continue
            best = choose(candidates)
            row = replace(removed[best.edit], metric="choice", value=best.cost, lo=None, hi=None)
            rows.append(replace(row, detail={**best.detail, "candidates": len(cells)}))
        return rows

    def _edit(self, cells: Sequence[Cell]) -> NamedEdit | None:
        """All cells as one edit where layers are named, else the chosen one; None without a fit."""
        rows = self.study.own_rows()
        if self.plan.layers is not None:
            failed = {row.edit for row in rows if row.metric == FAILED}
            could = not failed & {self.study.id_of(cell) for cell in cells}
            return self.study.joined(cells) if could else None
        chosen = {row.edit for row in rows if row.metric == "choice"}
        of_eraser = [cell for cell in cells if self.study.id_of(cell) in chosen]
        return self.study.edit(of_eraser[0]) if of_eraser else None

    def _why_none(self) -> str:
        """Why there is no edit at all, eraser by eraser, a reason once."""
        by_error: dict[str, dict[str, None]] = {}
        for row in self.study.own_rows():
            if row.metric == FAILED:
                by_error.setdefault(row.detail["error"], {})[row.eraser] = None
        return "; ".join(f"{', '.join(names)}: {error}" for error, names in by_error.items())

    def _tested(self, edit: NamedEdit, cells: Sequence[Cell]) -> list[Row]:
        """Every test figure under an edit; a control leaves out what has no baseline."""
        study = self.study
        rows = []
        if self.screening.samples:
            rows = [r for c in cells if study.id_of(c) == edit.id for r in study.certificate(c)]
        metrics = [m for m in study.metrics if m.has_baseline or not edit.record.baseline]
        return rows + study.measure(edit, "test", metrics)
