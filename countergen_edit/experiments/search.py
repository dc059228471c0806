"""The search: every layer, eraser, rank and site of a task; what each edit removes and costs.

Comes in: a model, a task or several, erasers and metrics. Goes out: rows and edits in a run folder.
Units of work, in order: for each task the unedited model; every cell, one edit each; greedy
combinations of cells; the choice, which reads validation rows only; and for the chosen edit what is
measured of no other. A cell whose eraser fails gives a row `error` instead.

A sweep takes test figures of every edit, a debiasing those of the chosen edit alone. Cells do not
depend on each other, so jobs may share them out: what one has recorded, another run of the same
model, data and code takes over as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from sklearn.base import clone

from countergen_edit.data.task import Task
from countergen_edit.edits import NamedEdit
from countergen_edit.erasers import BaseEraser
from countergen_edit.errors import UserError
from countergen_edit.experiments.choice import Point, choose, front, points
from countergen_edit.experiments.fit_data import Positions, Sinks
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.experiments.study import Cell, Study, check_study
from countergen_edit.experiments.units import Run, units
from countergen_edit.metrics.base import MeasuredSplit, Metric
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, Scratch, resuming

Tested = Literal["every", "chosen"]
WORTH_ADDING = 0.1
"""Share of the bias that an edit must remove by itself to be tried in a combination."""
CANDIDATES = 4
"""How many edits a greedy step tries to add; those of the front come first."""
LEAST_GAIN = 0.002
"""A combination must remove this share of the bias more than what it is built on."""


@dataclass(frozen=True)
class Search:
    """What is searched.

    Attributes:
        tasks: each is searched by itself; their names tell them apart.
        erasers: by their name in the run.
        metrics: what is measured, costs with their budgets among them.
        sites: where edits go.
        layers: blocks, from 0; None takes all.
        ranks: ranks for the erasers that take one; empty leaves each at its own.
        combine: most cells in one combined edit; 1 combines none.
        mix: whether a combined edit may hold several erasers and sites.
        tested: whether test figures are taken of every edit or of the chosen one alone; then the
            search has seen no test set.
        positions: the tokens on which erasers are fitted.
        sinks: whether edits leave attention sinks alone (`leave`) or not (`edit`).
        scratch: memory and disk for activations.
        seed: of everything that is drawn.
    """

    tasks: Sequence[Task]
    erasers: Mapping[str, BaseEraser]
    metrics: Sequence[Metric]
    sites: tuple[str, ...] = ("resid_post",)
    layers: tuple[int, ...] | None = None
    ranks: tuple[int, ...] = ()
    combine: int = 3
    mix: bool = True
    tested: Tested = "every"
    positions: Positions = "outputs"
    sinks: Sinks = "leave"
    scratch: Scratch = field(default_factory=Scratch)
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.sites:
            raise UserError("the search has no site: name at least one, such as sites=[resid_post]")
        if self.combine < 1:
            raise UserError(f"combine={self.combine} is below 1: 1 combines nothing")
        for rank in self.ranks:
            if rank < 1:
                raise UserError(f"ranks={list(self.ranks)}: a rank is at least 1")
        names = [task.name for task in self.tasks]
        if len(set(names)) < len(names):
            raise UserError(f"two tasks of the search are called {max(names, key=names.count)!r}")

    def check(self, model: LanguageModel) -> None:
        """Find what would stop the search half way.

        Raises:
            UserError: as `check_study`; or there are no validation sets to choose by.
        """
        for task in self.tasks:
            if not task.validation:
                raise UserError("a search needs a set under data.validation to choose by")
            check_study(
                model,
                task,
                self.erasers,
                self.metrics,
                sites=self.sites,
                layers=self.layers,
                positions=self.positions,
            )

    def run(
        self,
        model: LanguageModel,
        folder: RunFolder,
        *,
        parts: Mapping[str, Sequence[Row]] | None = None,
        finish: bool = True,
    ) -> None:
        """Run what is left of the search.

        Args:
            model: unedited again when this returns.
            folder: where rows and edits go; units it already holds are not run again.
            parts: rows by unit that jobs of the same search have recorded, taken over as they are.
            finish: whether to combine, choose and measure the chosen edit; a job of many does not.
        """
        layers = range(model.n_layers) if self.layers is None else self.layers
        below = [layer - 1 for layer in layers]
        resumed = resuming(model, sorted({*layers, *below}), self.scratch)
        searches = [TaskSearch(self, resumed, task, folder) for task in self.tasks]
        total = sum(1 + len(search.cells) for search in searches)
        with units(folder, total, parts) as run:
            for search in searches:
                run(search.unit("unedited"), "unedited model", search.unedited)
                for cell in search.cells:
                    run(search.unit(cell.unit), cell.unit, partial(search.cell, cell))
            if finish:
                for search in searches:
                    search.finish(run)


class TaskSearch:
    """The search of one task, in progress."""

    def __init__(self, plan: Search, model: LanguageModel, task: Task, folder: RunFolder) -> None:
        self.plan = plan
        self.study = Study(
            model,
            task,
            plan.metrics,
            folder,
            sites=plan.sites,
            layers=plan.layers,
            positions=plan.positions,
            sinks=plan.sinks,
            scratch=plan.scratch,
            seed=plan.seed,
        )
        self.cells = [
            Cell(site, layer, name, ranked)
            for site in plan.sites
            for layer in self.study.candidate_layers(site)
            for name, eraser in plan.erasers.items()
            for ranked in _ranked(eraser, plan.ranks)
        ]
        self._of_edit: dict[str, tuple[Cell, ...]] = {
            self.study.id_of(cell): (cell,) for cell in self.cells
        }

    @property
    def splits(self) -> tuple[MeasuredSplit, ...]:
        """The splits of which figures are taken for every edit."""
        return ("test", "validation") if self.plan.tested == "every" else ("validation",)

    def unit(self, name: str) -> str:
        return f"{self.study.task.name}/{name}"

    def unedited(self) -> list[Row]:
        """Every quick figure of the model as it came."""
        study = self.study
        return [row for split in self.splits for row in study.measure(None, split, study.quick)]

    def cell(self, cell: Cell) -> list[Row]:
        """Every figure of one cell, or the error that its eraser ended with.

        Raises:
            UserError: there is no room for activations or rows, which is no eraser's fault.
        """
        if not self.study.folder.has_edit(self.study.id_of(cell)):
            self.study.capture()
            try:
                self.study.fit(cell)
            except Exception as error:  # an eraser may be the user's own, and fail in its own way
                return [self.error_row(cell, error)]
        return self.figures(self.study.edit(cell))

    def combination(self, cells: Sequence[Cell]) -> list[Row]:
        """Every figure of several cells' edits together."""
        return self.figures(self.study.combination(cells))

    def figures(self, edit: NamedEdit) -> list[Row]:
        """What is measured of every edit."""
        study = self.study
        rows = [row for split in self.splits for row in study.measure(edit, split, study.quick)]
        for split in reversed(self.splits):
            rows += study.removed(edit, split)
        return rows

    def error_row(self, cell: Cell, error: Exception) -> Row:
        """What stands for a cell whose fit failed."""
        wanted = cell.eraser.get_params().get("rank")
        return Row(
            "error",
            None,
            task=self.study.task.name,
            axis=self.study.task.axis.name,
            edit=self.study.id_of(cell),
            eraser=cell.name,
            site=cell.site,
            layers=() if cell.layer is None else (cell.layer,),
            rank=wanted if isinstance(wanted, int) else 0,  # it may be left to the fit
            seed=self.plan.seed,
            detail={"error": f"{type(error).__name__}: {error}"},
        )

    def points(self, split: MeasuredSplit, *, baselines: bool = False) -> list[Point]:
        """The edits of this task by their figures in a split."""
        mine = [row for row in self.study.folder.rows() if row.task == self.study.task.name]
        return points(mine, split, self.study.costs, baselines=baselines)

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
        best = choose(singles)
        on_front = {p.edit for p in front(singles)}
        worthy = [p for p in singles if p.removed >= WORTH_ADDING]
        worthy.sort(key=lambda p: (p.edit in on_front, p.rank), reverse=True)
        for _ in range(self.plan.combine - 1):
            better = choose([best, *self._step(run, best, worthy)])
            gained = better.removed >= best.removed + LEAST_GAIN
            if better.edit == best.edit or (best.is_affordable and not gained):
                break
            best = better
        run(self.unit("choice"), "choice", self.choice)
        if self.plan.tested == "every" or (best.is_affordable and best.removed > 0):
            chosen = self.study.combination(self._of_edit[best.edit])
            run(self.unit("chosen"), "chosen edit", partial(self.chosen, chosen))

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
            run(self.unit(f"combined/{name}"), name, partial(self.combination, cells))
            edit = self.study.combination(cells)
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
            for row in self.study.folder.rows()
            if (row.metric, row.split) == ("bias_removed", "validation")
        }
        rows = []
        for point in self.points("validation", baselines=True):
            reported = test.get(point.edit)
            detail = {
                "removed": point.removed,
                "harms": {name: harm.value for name, harm in point.harms.items()},
                "removed_test": reported and reported.removed,
                "cost_test": reported and reported.cost,
                "harms_test": reported and {n: harm.value for n, harm in reported.harms.items()},
                "front": point.edit in on_front,
                "chosen": point.edit == chosen.edit,
                "affordable": point.is_affordable,
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
        for cell in self._of_edit[edit.id]:
            rows += study.certificate(cell)
        rows += study.measure(edit, "test", study.metrics) + study.removed(edit, "test")
        control = study.control(edit)
        with_baseline = [metric for metric in study.metrics if metric.has_baseline]
        return rows + study.measure(control, "test", with_baseline)


def _ranked(eraser: BaseEraser, ranks: Sequence[int]) -> list[BaseEraser]:
    if not ranks or "rank" not in eraser.get_params():
        return [eraser]
    return [clone(eraser).set_params(rank=rank) for rank in ranks]
