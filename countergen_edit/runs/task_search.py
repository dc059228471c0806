"""The search of one task: screening, cells, greedy combinations, the choice, the chosen edit.

Comes in: the plan of a search, a model and one of its tasks. Goes out: rows and edits in the run
folder, unit by unit in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from sklearn.base import clone

from countergen_edit.data.task import Task
from countergen_edit.decisions import JUDGEMENT
from countergen_edit.decisions.selection import Point, choose, front, ordered, points
from countergen_edit.decisions.significance import has_significant_bias, significant_bias
from countergen_edit.edits import NamedEdit
from countergen_edit.erasers import BaseEraser
from countergen_edit.metrics.base import MeasuredSplit
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel
from countergen_edit.runs.cells import Cell
from countergen_edit.runs.files import FAILED
from countergen_edit.runs.run_folder import RunFolder
from countergen_edit.runs.screening import Screening
from countergen_edit.runs.study import Study
from countergen_edit.runs.units import Run

if TYPE_CHECKING:
    from countergen_edit.runs.search import Search

WORTH_ADDING = 0.1
"""Share of the bias that an edit must remove by itself to be tried in a combination."""
CANDIDATES = 4
"""How many edits a greedy step tries to add; those of the front come first."""
Tested = Literal["every", "chosen"]
LEAST_GAIN = 0.002
"""A combination must remove this share of the bias more than what it is built on."""


class TaskSearch:
    """The search of one task, in progress."""

    def __init__(self, plan: Search, model: LanguageModel, task: Task, folder: RunFolder) -> None:
        self.plan = plan
        halving = plan.halving
        every = range(model.n_layers) if plan.layers is None else plan.layers
        self.study = Study(
            model,
            task,
            plan.metrics,
            folder,
            sites=plan.sites,
            layers=plan.layers,
            positions=plan.positions,
            skip_attention_sinks=plan.skip_attention_sinks,
            fitted=plan.fitted,
            scratch=plan.scratch,
            resumed=None if halving is None else [every[i] for i in halving.grid(len(every))],
            seed=plan.seed,
        )
        erasers = [
            (n, e) for n, eraser in plan.erasers.items() for e in _ranked(eraser, plan.ranks)
        ]
        self.cells = [
            Cell(site, layer, name, eraser)
            for site in plan.sites
            for layer in self.study.candidate_layers(site)
            for name, eraser in erasers
        ]
        groups = [
            [Cell(site, layer, name, eraser) for layer in self.study.candidate_layers(site)]
            for site in plan.sites
            for name, eraser in erasers
        ]
        self.screening = Screening(self.study, halving, [groups], self.attempt)
        self._of_edit: dict[str, tuple[Cell, ...]] = {
            self.study.id_of(cell): (cell,) for cell in self.cells
        }

    @property
    def splits(self) -> tuple[MeasuredSplit, ...]:
        """The splits that every edit is measured on."""
        return ("test", "validation") if self.plan.tested == "every" else ("validation",)

    def run(self, run: Run) -> None:
        """The unedited model, the screening, and every cell that is measured in full."""
        run.stage("unedited model", 1)
        run(self.unit("unedited"), "unedited model", self.unedited)
        if self.is_over:
            return
        self.screening.run(run, self.unit)
        finalists = {cell.unit for cell in self.screening.finalists}
        run.stage("candidates on validation data", len(finalists))
        for cell in self.cells:
            if cell.unit in finalists:
                run(self.unit(cell.unit), cell.unit, partial(self.cell, cell))

    @property
    def is_over(self) -> bool:
        """Whether there is no bias to remove, which ends a search that only wants an edit."""
        return self.plan.tested == "chosen" and not has_significant_bias(self.study.own_rows())

    def unit(self, name: str) -> str:
        return f"{self.study.task.name}/{name}"

    def unedited(self) -> list[Row]:
        """Every quick figure of the unedited model."""
        study = self.study
        rows = [row for split in self.splits for row in study.measure(None, split, study.quick)]
        return [*rows, *significant_bias(rows)]

    def cell(self, cell: Cell) -> list[Row]:
        """Every figure of one cell, or the error that its eraser ended with."""
        return self.attempt(cell, self.figures)

    def attempt(self, cell: Cell, figures: Callable[[NamedEdit], list[Row]]) -> list[Row]:
        """What figures say of a cell's edit, or the error that its eraser ended with.

        Raises:
            UserError: there is no room for activations or rows, which is no eraser's fault.
        """
        return self.study.failure([cell]) or figures(self.study.edit(cell))

    def combination(self, cells: Sequence[Cell]) -> list[Row]:
        """Every figure of several cells' edits together, or the error that a fit ended with."""
        cells = self.study.together(cells)
        return self.study.failure(cells) or self.figures(self.study.joined(cells))

    def figures(self, edit: NamedEdit) -> list[Row]:
        """What is measured of every edit."""
        study = self.study
        rows = [row for split in self.splits for row in study.measure(edit, split, study.quick)]
        for split in reversed(self.splits):
            rows += study.removed(edit, split)
        return rows

    def points(self, split: MeasuredSplit, *, baselines: bool = False) -> list[Point]:
        """The edits of this task by their figures in a split."""
        return points(self.study.own_rows(), split, self.study.costs, baselines=baselines)

    def finish(self, run: Run) -> None:
        """Combine cells greedily, choose, and measure the chosen edit with what is left.

        A step adds to the best edit so far others at other places, those of the front first, and
        goes on from the best of them, as long as it removes noticeably more or brings the cost
        within the budgets.
        """
        # A run that goes on may have combinations already, which are found again from its cells.
        singles = [p for p in self.points("validation") if p.edit in self._of_edit]
        if not singles:
            return  # nothing but controls, or every cell failed, which the rows say
        run.stage("combinations, selected edit")
        best = choose(singles)
        on_front = {p.edit for p in front(singles)}
        worthy = [p for p in ordered(singles) if p.removed >= WORTH_ADDING]
        worthy.sort(key=lambda p: p.edit not in on_front)
        for _ in range(self.plan.combine - 1):
            better = choose([best, *self._step(run, best, worthy)])
            gained = better.removed >= best.removed + LEAST_GAIN
            if better.edit == best.edit or (best.is_worthwhile and not gained):
                break
            best = better
        run(self.unit("choice"), "choice", self.choice)
        if self.plan.tested == "every" or best.is_worthwhile:
            chosen = self.study.joined(self.study.together(self._of_edit[best.edit]))
            run(self.unit("chosen"), "chosen edit", partial(self.chosen, chosen))
            run(self.unit(JUDGEMENT), JUDGEMENT, partial(self.study.judge, [chosen]))

    def _step(self, run: Run, best: Point, worthy: Sequence[Point]) -> list[Point]:
        """Measure combinations of the best edit with one more cell."""
        base = self._of_edit[best.edit]
        places = {(cell.site, cell.layer) for cell in base}
        tried: list[str] = []
        for point in worthy:
            [added] = self._of_edit[point.edit]
            if (added.site, added.layer) in places or len(tried) == CANDIDATES:
                continue
            if not self.plan.mix and (added.name, added.site) != (base[0].name, base[0].site):
                continue
            cells = tuple(sorted([*base, added], key=self.cells.index))
            name = " + ".join(cell.unit.removeprefix("cell/") for cell in cells)
            unit = self.unit(f"combined/{name}")
            run(unit, name, partial(self.combination, cells))
            if any(row.metric == FAILED for row in self.study.own_rows() if row.unit == unit):
                continue
            edit = self.study.joined(self.study.together(cells))
            self._of_edit[edit.id] = cells
            tried.append(edit.id)
        return [point for point in self.points("validation") if point.edit in tried]

    def choice(self) -> list[Row]:
        """The front and the chosen edit, by validation rows; test rows only report it."""
        candidates = self.points("validation")
        chosen, on_front = choose(candidates), {p.edit for p in front(candidates)}
        test = {p.edit: p for p in self.points("test", baselines=True)}
        removed = {
            row.edit: row
            for row in self.study.own_rows()
            if (row.metric, row.split) == ("bias_removed", "validation")
        }
        rows = []
        for point in self.points("validation", baselines=True):
            reported = test.get(point.edit)
            detail = {
                **point.detail,
                "removed_test": reported and reported.removed,
                "cost_test": reported and reported.cost,
                "degradations_test": reported and reported.detail["degradations"],
                "groups_test": reported and reported.detail["groups"],
                "front": point.edit in on_front,
                "chosen": point.edit == chosen.edit,
            }
            row = replace(removed[point.edit], metric="cost", value=point.cost, detail=detail)
            rows.append(replace(row, lo=None, hi=None))
        return rows

    def chosen(self, edit: NamedEdit) -> list[Row]:
        """What is measured of the chosen edit alone.

        Where no test figures were taken before, these are all of them, with those of random
        directions of equal rank and with certificates of its fits.
        """
        study = self.study
        if self.plan.tested == "every":
            slow = [metric for metric in study.metrics if metric.is_slow]
            return [row for under in (None, edit) for row in study.measure(under, "test", slow)]
        rows = study.measure(None, "test", study.metrics)
        for cell in study.together(self._of_edit[edit.id]):
            rows += study.certificate(cell)
        rows += study.measure(edit, "test", study.metrics) + study.removed(edit, "test")
        control = study.control(edit)
        with_baseline = [metric for metric in study.metrics if metric.has_baseline]
        return rows + study.measure(control, "test", with_baseline)


def _ranked(eraser: BaseEraser, ranks: Sequence[int]) -> list[BaseEraser]:
    if not ranks or "rank" not in eraser.get_params():
        return [eraser]
    return [clone(eraser).set_params(rank=rank) for rank in ranks]
