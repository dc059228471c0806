"""The search: every layer, eraser, rank and site of a task; what each edit removes and costs.

Comes in: a model, a task or several, erasers and metrics. Goes out: rows and edits in a run folder.
Units of work, in order: for each task the unedited model; every cell, one edit each, or by halving
those that a screening on few data leaves; greedy combinations of cells; the choice, which reads
validation rows only; and for the chosen edit what is measured of no other. A cell whose eraser
fails gives a row `error` instead.

A sweep takes test figures of every edit, a debiasing those of the chosen edit alone. Cells do not
depend on each other, so jobs may share them out: what one has recorded, another run of the same
model, data and code takes over as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from countergen_edit.data.task import Task
from countergen_edit.erasers import BaseEraser
from countergen_edit.core.errors import UserError
from countergen_edit.runs.cells import Fitted
from countergen_edit.runs.checking import check_study
from countergen_edit.runs.fit_data import Positions
from countergen_edit.runs.halving import Halving
from countergen_edit.runs.run_folder import RunFolder
from countergen_edit.runs.task_search import TaskSearch, Tested
from countergen_edit.runs.units import units
from countergen_edit.metrics.base import Metric
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, Scratch


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
        halving: how cells are narrowed down; None measures each on all validation data.
        skip_attention_sinks: whether edits skip attention sinks.
        scratch: memory and disk for activations.
        seed: of everything that is drawn.
        fitted: on what the cells of a combination are fitted: `sequential`, each on what the model
            holds under those before it; `independent` each on the unedited model.
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
    halving: Halving | None = None
    skip_attention_sinks: bool = True
    scratch: Scratch = field(default_factory=Scratch)
    seed: int = 0
    fitted: Fitted = "sequential"

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
        searches = [TaskSearch(self, model, task, folder) for task in self.tasks]
        searches[0].study.announce(sum(len(search.cells) for search in searches))
        with units(folder, parts) as run:
            for search in searches:
                search.run(run)
            if finish:
                for search in searches:
                    search.finish(run)
