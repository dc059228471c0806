"""The audit: measure, find, project out, measure again, and say what it cost.

Comes in: a model, a task, erasers and metrics. Goes out: rows and edits in a run folder. Units of
work, in order: the unedited model; each eraser's layers, screened on few data where there are many,
and the best of them on all validation data; of each eraser the choice of one layer, by the rule of
`choice`; then, on test data, each chosen edit and random directions of equal rank there; last, what
stands beside them, such as asking. Without erasers only the unedited model is measured (see
`unedited`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.erasers import BaseEraser
from countergen_edit.errors import UserError
from countergen_edit.experiments.beside import Beside
from countergen_edit.experiments.cells import Cell, Fitted
from countergen_edit.experiments.checking import check_study
from countergen_edit.experiments.choice import Point, choose, points
from countergen_edit.experiments.fit_data import Positions, Sinks
from countergen_edit.experiments.forecast import announcement, try_pace
from countergen_edit.experiments.halving import Halving
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.experiments.screening import Screening
from countergen_edit.experiments.study import Study
from countergen_edit.experiments.unedited import check_unedited, measure, of_models, tested_alone
from countergen_edit.experiments.units import Run, units
from countergen_edit.experiments.work import Work, captured, measuring, recapturing, refining
from countergen_edit.metrics.base import Metric
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel


@dataclass(frozen=True)
class Audit:
    """What an audit measures, fits and edits.

    Attributes:
        task: what is asked of whom, in which texts.
        erasers: by their name in the run; without any, the task is its test data alone.
        metrics: what is measured, costs with their budgets among them.
        site: where edits go.
        layers: layers edited together; None chooses a single layer on validation data: of those
            within the budgets the one that removes most bias.
        positions: the tokens on which erasers are fitted.
        halving: how candidate layers are narrowed down; None measures each on all validation data.
        sinks: whether edits leave attention sinks alone (`leave`) or not (`edit`).
        seed: of everything that is drawn.
        beside: other ways to the same end by their name in the run, measured on test data too.
        fitted: on what the edits of several layers are fitted: `in_turn`, each on what the model
            holds under those before it; `alone`, each on the unedited model.
    """

    task: Task
    erasers: Mapping[str, BaseEraser]
    metrics: Sequence[Metric]
    site: str = "resid_post"
    layers: tuple[int, ...] | None = None
    positions: Positions = "outputs"
    halving: Halving | None = field(default_factory=Halving)
    sinks: Sinks = "leave"
    seed: int = 0
    beside: Mapping[str, Beside] = field(default_factory=dict)
    fitted: Fitted = "in_turn"

    def __post_init__(self) -> None:
        if not self.erasers:
            object.__setattr__(self, "task", tested_alone(self.task))
            object.__setattr__(self, "metrics", of_models(self.metrics))

    def check(self, model: LanguageModel) -> None:
        """Find what would stop the audit half way.

        Raises:
            UserError: as `check_study` or, without erasers, `check_unedited`; there are no
                validation sets to choose a layer by; or what stands beside edits finds what it
                cannot work with.
        """
        if self.beside and not self.erasers:
            raise UserError(
                f"beside={next(iter(self.beside))} stands beside edits, and without an eraser "
                "there are none: name one, such as eraser=rlace"
            )
        if not self.erasers:
            check_unedited(model, self.task, self.metrics, self.seed)
            return
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
        for way in self.beside.values():
            way.check(model, self.task)

    def run(self, model: LanguageModel, folder: RunFolder) -> None:
        """Run what is left of the audit.

        Args:
            model: unedited again when this returns.
            folder: where rows and edits go; units it already holds are not run again.
        """
        if not self.erasers:
            measure(model, self.task, self.metrics, folder, self.seed)
            return
        halving = self.halving if self.layers is None else None
        study = Study(
            model,
            self.task,
            self.metrics,
            folder,
            sites=(self.site,),
            layers=self.layers,
            positions=self.positions,
            resumed=None if halving is None else halving.grid(model.n_layers),
            sinks=self.sinks,
            fitted=self.fitted,
            seed=self.seed,
        )
        audit = _Running(self, study, halving)
        about = announcement(study, audit.screening.total)
        with units(folder, pace=partial(try_pace, study), about=about) as run:
            audit.run(run)


class _Running:
    """An audit in progress."""

    def __init__(self, plan: Audit, study: Study, halving: Halving | None) -> None:
        self.plan, self.study = plan, study
        layers = study.candidate_layers(plan.site)
        self.cells = {
            name: [Cell(plan.site, layer, name, eraser) for layer in layers]
            for name, eraser in plan.erasers.items()
        }
        if plan.layers is not None:
            self.cells = {name: study.together(cells) for name, cells in self.cells.items()}
        pools = [[cells] for cells in self.cells.values()]
        self.screening = Screening(
            study, halving, pools, lambda cell, figures: figures(study.edit(cell))
        )

    def run(self, run: Run) -> None:
        """Every unit, in order."""
        study, screening = self.study, self.screening
        unedited = measuring(study, "test", None) + measuring(study, "validation", None)
        fits = Work(captured=captured(study.task), fits=self._fits)
        fits += sum((recapturing(study, cell) for cell in screening.finalists), Work())
        run.expect(unedited + fits + screening.work(1) + self._later())
        run("unedited", "unedited model", self._unedited, unedited)
        screening.run(run, str, self._later)
        run.expect(self._later())
        for cell in screening.finalists:
            name = cell.unit.removeprefix("cell/")
            run(f"layers/{name}", name, partial(self._candidate, cell), self._measuring(cell))
        if self.plan.layers is None:
            run("choice", "choice", self._choice)
        tested = measuring(study, "test", study.model.n_layers // 2)
        edits = []
        for name, cells in self.cells.items():
            edit = self._edit(cells)
            edits.append(edit)
            work = partial(self._tested, edit, cells)
            run(f"test/{edit.id}", f"test data: {name}", work, tested)
            control = study.control(edit)
            about = f"test data: random directions of rank {control.record.rank}"
            run(f"test/{control.id}", about, partial(self._tested, control, ()), tested)
        for name, way in self.plan.beside.items():
            size = way.work(study, len(edits))
            groups = way.groups(study, name, edits)
            count = sum(len(group) + (len(group) > 1) for group in groups)
            for group in groups:
                self._beside(run, group, (1 / count) * size)

    def _beside(self, run: Run, group: Sequence[NamedEdit], size: Work) -> None:
        """Of a group of edits beside the audit's the only one, or the best, on test data."""
        for edit in group if len(group) > 1 else ():
            about = f"validation data: {edit.label}"
            run(f"beside/{edit.id}", about, partial(self._on_validation, edit), size)
        ids = {edit.id for edit in group}
        best = choose(self._points(ids)).edit if len(group) > 1 else group[0].id
        [edit] = [edit for edit in group if edit.id == best]
        run(f"test/{edit.id}", f"test data: {edit.label}", partial(self._tested, edit, ()), size)

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

    def _candidate(self, cell: Cell) -> list[Row]:
        """Validation figures of one edit; its certificate where every candidate gets one.

        An edit that was fitted under others is measured with them.
        """
        rows = [] if self.screening.samples else self.study.certificate(cell)
        return rows + self._on_validation(self.study.joined([*cell.after, cell]))

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
            best = choose(self._points({self.study.id_of(cell) for cell in cells}))
            row = replace(removed[best.edit], metric="choice", value=best.cost, lo=None, hi=None)
            rows.append(replace(row, detail={**best.detail, "candidates": len(cells)}))
        return rows

    def _edit(self, cells: Sequence[Cell]) -> NamedEdit:
        """All cells as one edit where layers are named, else the chosen one."""
        if self.plan.layers is not None:
            return self.study.joined(cells)
        chosen = {row.edit for row in self.study.own_rows() if row.metric == "choice"}
        [cell] = [cell for cell in cells if self.study.id_of(cell) in chosen]
        return self.study.edit(cell)

    def _tested(self, edit: NamedEdit, cells: Sequence[Cell]) -> list[Row]:
        """Every test figure under an edit; a control leaves out what has no baseline."""
        study = self.study
        rows = []
        if self.screening.samples:
            rows = [r for c in cells if study.id_of(c) == edit.id for r in study.certificate(c)]
        metrics = [m for m in study.metrics if m.has_baseline or not edit.record.baseline]
        return rows + study.measure(edit, "test", metrics)
