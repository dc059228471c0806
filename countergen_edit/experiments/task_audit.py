"""The audit of one task: the unedited model, candidate layers, the choice, test figures.

Comes in: the plan of an audit and a model. Goes out: rows and edits in the run folder, unit by unit
in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from countergen_edit.edits import NamedEdit
from countergen_edit.errors import UserError
from countergen_edit.experiments.cells import Cell
from countergen_edit.experiments.choice import Point, choose, points
from countergen_edit.experiments.files import FAILED, JUDGEMENT
from countergen_edit.experiments.forecast import announcement, try_pace
from countergen_edit.experiments.judging import judgements
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.experiments.screening import Screening
from countergen_edit.experiments.study import Study
from countergen_edit.experiments.units import Run, units
from countergen_edit.experiments.work import Work, captured, measuring, recapturing, refining
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel

if TYPE_CHECKING:
    from countergen_edit.experiments.audit import Audit


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
            sinks=plan.sinks,
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
        about = announcement(self.study, self.screening.total)
        pace = partial(try_pace, self.study)
        with units(self.study.folder, pace=pace, about=about) as run:
            return self.run(run)

    def run(self, run: Run) -> list[NamedEdit]:
        """Every unit, in order."""
        study, screening = self.study, self.screening
        unedited = measuring(study, "test", None) + measuring(study, "validation", None)
        fits = Work(captured=captured(study.task), fits=self._fits)
        fits += sum((recapturing(study, cell) for cell in screening.finalists), Work())
        run.expect(unedited + fits + screening.work(1) + self._later())
        run(self.unit("unedited"), "unedited model", self._unedited, unedited)
        screening.run(run, self.unit, self._later)
        run.expect(self._later())
        for cell in screening.finalists:
            name = cell.unit.removeprefix("cell/")
            candidate = partial(self._candidate, cell)
            run(self.unit(f"layers/{name}"), name, candidate, self._measuring(cell))
        if self.plan.layers is None:
            run(self.unit("choice"), "choice", self._choice)
        tested = measuring(study, "test", study.model.n_layers // 2)
        found = {name: self._edit(cells) for name, cells in self.cells.items()}
        by_name = {name: edit for name, edit in found.items() if edit is not None}
        if not by_name:
            raise UserError(self._why_none())
        for name, edit in by_name.items():
            self.test(run, edit, name, self.cells[name], tested)
        edits = [*by_name.values()]
        for name, way in self.plan.beside.items():
            size = way.work(study, len(edits))
            groups = way.groups(study, name, edits)
            count = sum(len(group) + (len(group) > 1) for group in groups)
            for group in groups:
                self._beside(run, group, (1 / count) * size)
        run(self.unit(JUDGEMENT), JUDGEMENT, partial(judgements, study, edits))
        return edits

    def test(
        self,
        run: Run,
        edit: NamedEdit,
        name: str,
        cells: Sequence[Cell] = (),
        size: Work | None = None,
    ) -> None:
        """Every test figure under an edit, and under random directions at its places.

        Args:
            run: runs units.
            edit: fitted here or not.
            name: what a person reads while it runs.
            cells: of an edit that is fitted here, what it is of.
            size: of either.
        """
        work = partial(self._tested, edit, cells)
        run(self.unit(f"test/{edit.id}"), f"test data: {name}", work, size)
        control = self.study.control(edit)
        about = f"test data: random directions of rank {control.record.rank}"
        run(self.unit(f"test/{control.id}"), about, partial(self._tested, control, ()), size)

    def _beside(self, run: Run, group: Sequence[NamedEdit], size: Work) -> None:
        """Of a group of edits beside the audit's the only one, or the best, on test data."""
        for edit in group if len(group) > 1 else ():
            about = f"validation data: {edit.label}"
            run(self.unit(f"beside/{edit.id}"), about, partial(self._on_validation, edit), size)
        ids = {edit.id for edit in group}
        best = choose(self._points(ids)).edit if len(group) > 1 else group[0].id
        [edit] = [edit for edit in group if edit.id == best]
        work = partial(self._tested, edit, ())
        run(self.unit(f"test/{edit.id}"), f"test data: {edit.label}", work, size)

    @property
    def _fits(self) -> int:
        """About how many edits are fitted."""
        rungs = range(len(self.screening.samples))
        return len(self.screening.finalists) + sum(self.screening.expected(r) // 2 for r in rungs)

    def _later(self) -> Work:
        """What follows the screening: finalists on validation data, the chosen on test data."""
        screening = self.screening
        count = screening.expected_finalists
        middle = self.study.model.n_layers // 2
        final = count * measuring(self.study, "validation", middle)
        tested = 2 * len(self.cells) * measuring(self.study, "test", middle)
        certified = count if not screening.samples else len(self.cells)
        ways = self.plan.beside.values()
        beside = sum((way.work(self.study, len(self.cells)) for way in ways), Work())
        return final + tested + Work(certificates=certified) + beside + screening.refining

    def _measuring(self, cell: Cell) -> Work:
        certificates = Work(certificates=0 if self.screening.samples else 1)
        measured = measuring(self.study, "validation", cell.lowest)
        fitted = recapturing(self.study, cell) + refining(self.study, cell)
        return measured + certificates + fitted

    def _unedited(self) -> list[Row]:
        """Every figure of the model as it came."""
        study = self.study
        tested = study.measure(None, "test", study.metrics)
        return [*tested, *study.measure(None, "validation", study.quick), *study.told_apart()]

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
