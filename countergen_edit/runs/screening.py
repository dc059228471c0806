"""Screening by successive halving: candidates measured on few names and texts, rung by rung."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from countergen_edit.decisions.selection import DRAWS, points
from countergen_edit.edits import NamedEdit
from countergen_edit.metrics.base import Metric
from countergen_edit.metrics.context import EvaluationContext
from countergen_edit.metrics.rows import SCREENING, Row
from countergen_edit.runs.fits import Candidate
from countergen_edit.runs.halving import Halving, between, survivors

if TYPE_CHECKING:
    from countergen_edit.runs.runner import Runner

KEPT_DRAWS = 200
"""Resamples that a row keeps: the spread of a difference is known from them to 5 %."""
STAY = 3
"""One in so many candidates of the first rung stays after it, and of those after the next."""
RUNG = "rung"
"""The facet of screening rows."""


@dataclass
class _Group:
    """An eraser at one site: its candidates by layer, and the indices of those in progress."""

    candidates: Sequence[Candidate]
    current: list[int]
    measured: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.measured = {*self.current}


class Screening:
    """The halving of a task's candidates; without `halving` every candidate is a finalist.

    `pools` hold groups of candidates; those of one pool compete.
    """

    def __init__(
        self,
        runner: Runner,
        halving: Halving | None,
        pools: Sequence[Sequence[Sequence[Candidate]]],
    ) -> None:
        self.runner = runner
        widest = max((len(group) for pool in pools for group in pool), default=0)
        self.shares = halving.shares(widest) if halving else []
        self.pools = [
            [_Group(own, halving.grid(len(own)) if halving else [*range(len(own))]) for own in pool]
            for pool in pools
        ]
        self._first = [sum(len(group.current) for group in pool) for pool in self.pools]

    @property
    def finalists(self) -> list[Candidate]:
        """The candidates that all validation data are for, in the order of the pools."""
        return [g.candidates[i] for pool in self.pools for g in pool for i in g.current]

    def run(self) -> None:
        """Measure rung by rung, until the finalists are left."""
        runner, seed = self.runner, self.runner.plan.seed
        for rung, share in enumerate(self.shares, start=1):
            candidates = self.finalists
            runner.fits.fit_ahead(candidates)
            task = runner.task.thinned(share, seed)
            metrics = [metric.bound(task) for metric in runner.quick]
            model = runner.fits.resuming([c.layer for c in candidates], share=0.25)
            context = EvaluationContext(model, runner.store, seed)
            measure = partial(self._rows, rung, metrics, context)
            about = f"screening {rung} of {len(self.shares)} ({share:.0%} of validation data)"
            runner.run_unit.stage(about, 1 + len(candidates))
            runner.record(f"screening/{rung}/unedited", "unedited model", measure, None)
            for candidate in candidates:
                unit = f"screening/{rung}/{candidate.label}"
                runner.record(unit, candidate.label, runner.attempt, candidate, measure)
            rows = [row for row in runner.rows() if row.facets.get(RUNG) == rung]
            for pool, first in zip(self.pools, self._first, strict=True):
                self._narrow(pool, rows, max(1, first // STAY**rung), rung)
        runner.fits.fit_ahead(self.finalists)

    def _rows(
        self,
        rung: int,
        metrics: Sequence[Metric],
        context: EvaluationContext,
        edit: NamedEdit | None,
    ) -> list[Row]:
        """Every quick figure under an edit, and the share it removes with its resamples."""
        bias = metrics[0]
        rows = [r for m in metrics for r in m.measure(context, edit, "validation")]
        if edit is not None and (removed := bias.removed(context, edit, "validation")):
            draws = bias.removed_draws(context, edit, "validation")
            kept = np.zeros(0) if draws is None else draws[1 : KEPT_DRAWS + 1].round(4)
            finite = kept.tolist() if np.isfinite(kept).all() else []
            rows.append(replace(removed, detail={**removed.detail, DRAWS: finite}))
        return [
            replace(row, split=SCREENING, facets={**row.facets, RUNG: float(rung)})
            for row in self.runner.marked(rows, edit, "validation")
        ]

    def _narrow(self, pool: Sequence[_Group], rows: Sequence[Row], most: int, rung: int) -> None:
        """Keep the best of a pool; candidates halfway to their measured neighbours enter."""
        ids = {
            self.runner.fits.id_of(group.candidates[i]): (group, i)
            for group in pool
            for i in group.current
        }
        alone = all(c.eraser.is_baseline for group in pool for c in group.candidates)
        measured = points(rows, SCREENING, self.runner.costs, baselines=alone)
        kept = survivors([p for p in measured if p.edit in ids], most)
        for group in pool:
            group.current = []
        for point in kept:
            group, i = ids[point.edit]
            group.current.append(i)
        for group in pool:
            entering = between(group.measured, group.current)
            group.measured |= {*entering}
            group.current = sorted([*group.current, *entering])
