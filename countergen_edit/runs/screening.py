"""Candidates measured on few names and texts, rung by rung, until the finalists are left.

Comes in: a study, pools of candidates, and how to halve them. Goes out: rows of the split
`screening`, with their rung as a facet, and the finalists of each pool. Within a pool candidates
compete: all of a search, the layers of one eraser in an audit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from countergen_edit.edits import NamedEdit
from countergen_edit.runs.cells import Cell
from countergen_edit.decisions.selection import DRAWS, Point, points
from countergen_edit.runs.halving import Halving, between, survivors
from countergen_edit.runs.study import Study
from countergen_edit.runs.units import Run
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import SCREENING, Row

KEPT_DRAWS = 200
"""Resamples that a row keeps: the spread of a difference is known from them to 5 %."""
STAY = 3
"""One in so many candidates of the first rung stays after it, and of those after the next."""
RUNG = "rung"
"""The facet of screening rows."""
Attempt = Callable[[Cell, Callable[[NamedEdit], list[Row]]], list[Row]]
"""Rows of a cell's edit by what measures it, or the row that says why it could not be fitted."""


class Screen:
    """What measures edits on few validation names and texts.

    Args:
        study: whose metrics, model and folder these are.
        rung: its number, from 1.
        names: names a group.
        layers: of the edits that are measured here.
    """

    def __init__(self, study: Study, rung: int, names: int, layers: Sequence[int | None]) -> None:
        self.study, self.rung = study, rung
        self.task = study.task.thinned(names, study.seed)
        self.metrics = [metric.bound(self.task) for metric in study.quick]
        self.context = EvaluationContext(
            study.resuming(layers, share=0.25), study.store, study.seed
        )

    def figures(self, edit: NamedEdit | None) -> list[Row]:
        """Every quick figure under an edit, and what it removes with resamples."""
        bias = self.metrics[0]
        rows = [r for m in self.metrics for r in m.measure(self.context, edit, "validation")]
        if edit is not None and (removed := bias.removed(self.context, edit, "validation")):
            draws = bias.removed_draws(self.context, edit, "validation")
            kept = np.zeros(0) if draws is None else draws[1 : KEPT_DRAWS + 1].round(4)
            finite = kept.tolist() if np.isfinite(kept).all() else []
            rows.append(replace(removed, detail={**removed.detail, DRAWS: finite}))
        facets = {RUNG: float(self.rung)}
        return [
            replace(row, split=SCREENING, facets={**row.facets, **facets})
            for row in self.study.marked(rows, edit, "validation")
        ]


@dataclass
class Group:
    """An eraser at one site, in progress: its cells by layer, and which of them were measured."""

    cells: Sequence[Cell]
    measured: set[int] = field(default_factory=set)
    current: list[int] = field(default_factory=list)

    @property
    def takes_long(self) -> bool:
        """Whether drafts stand for its cells."""
        return any(cell.draft is not cell for cell in self.cells)


class Screening:
    """The halving of one study's candidates.

    Args:
        study: the study.
        halving: how to narrow them down; None makes all of them finalists.
        pools: groups of cells; those of one pool compete.
        attempt: fits a cell and measures its edit.
    """

    def __init__(
        self,
        study: Study,
        halving: Halving | None,
        pools: Sequence[Sequence[Sequence[Cell]]],
        attempt: Attempt,
    ) -> None:
        self.study, self.attempt = study, attempt
        widest = max(len(group) for pool in pools for group in pool)
        names = study.task.most_names
        self.samples = halving.samples(widest, names) if halving else []
        self.pools = [[Group(cells) for cells in pool] for pool in pools]
        for group in self.groups:
            count = len(group.cells)
            group.current = halving.grid(count) if halving else list(range(count))
            group.measured = set(group.current)
        self._first = [sum(len(g.current) for g in pool) for pool in self.pools]

    @property
    def groups(self) -> list[Group]:
        return [group for pool in self.pools for group in pool]

    @property
    def finalists(self) -> list[Cell]:
        """What is measured on all validation data, in the order of the pools."""
        return [group.cells[i] for group in self.groups for i in group.current]

    def run(self, run: Run, unit: Callable[[str], str]) -> None:
        """Measure rung by rung; `finalists` are then what their name says.

        Args:
            run: runs units.
            unit: the name of a unit in the folder.
        """
        for number, names in enumerate(self.samples, start=1):
            cells = self.finalists
            self.study.fit_ahead([cell.draft for cell in cells])
            screen = Screen(self.study, number, names, [cell.layer for cell in cells])
            place = f"screening/{number}"
            stage = f"screening {number} of {len(self.samples)} ({names} names per group)"
            run.stage(stage, 1 + len(cells))
            run(unit(f"{place}/unedited"), "unedited model", partial(screen.figures, None))
            for cell in cells:
                name = cell.unit.removeprefix("cell/")
                run(
                    unit(f"{place}/{name}"),
                    name,
                    partial(self.attempt, cell.draft, screen.figures),
                )
            rows = [row for row in self.study.own_rows() if row.facets.get(RUNG) == number]
            for pool, first in zip(self.pools, self._first, strict=True):
                self._narrow(pool, rows, max(1, first // STAY**number), number)
        self.study.fit_ahead(self.finalists)

    def _narrow(self, pool: Sequence[Group], rows: Sequence[Row], most: int, rung: int) -> None:
        """Keep the best of a pool, and let those halfway to what was measured beside them enter.

        What takes long to fit is then fitted where its draft was best, and nowhere else.
        """
        ids = {self.study.id_of(g.cells[i].draft): (g, i) for g in pool for i in g.current}
        alone = all(cell.eraser.is_baseline for g in pool for cell in g.cells)
        candidates = points(rows, SCREENING, self.study.costs, baselines=alone)
        kept: list[Point] = survivors([p for p in candidates if p.edit in ids], most)
        for group in pool:
            group.current = []
        for point in kept:
            group, i = ids[point.edit]
            group.current.append(i)
        is_last = rung == len(self.samples)
        for group in pool:
            entering = between(group.measured, group.current)
            if is_last and group.takes_long:
                entering = []
            group.measured |= {*entering}
            group.current = sorted([*group.current, *entering])

    @property
    def total(self) -> int:
        """All candidates that there are."""
        return sum(len(group.cells) for group in self.groups)
