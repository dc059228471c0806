"""The sweep: every layer, eraser, rank, site and axis, at the cost of a few passes.

Comes in: a model and one audit plan for each axis. Goes out: rows in a run folder. Units of work,
in order: for each axis the unedited model; every cell, one edit each, measured on validation and
test data alike; greedy combinations of cells; the choice, which reads validation rows only; for the
chosen edit the metrics that take long. A cell whose eraser fails gives a row `error` instead.

Cells do not depend on each other, so jobs may share them out: what one has recorded, another run of
the same model, data and code takes over as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from countergen_edit.experiments.cells import SweepPlan
from countergen_edit.experiments.pareto import choose, front
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.experiments.study import Study
from countergen_edit.metrics.rows import Row
from countergen_edit.models import LanguageModel, resuming
from countergen_edit.models.progress import console

WORTH_ADDING = 0.1
"""Share of mean |R| that an edit must remove by itself to be tried in a combination."""
CANDIDATES = 4
"""How many edits a greedy step tries to add; those of the front come first."""
LEAST_GAIN = 0.002
"""A combination must remove this share of mean |R| more than what it is built on."""


def sweep(
    model: LanguageModel,
    plan: SweepPlan,
    folder: RunFolder,
    *,
    parts: Mapping[str, Sequence[Row]] | None = None,
    finish: bool = True,
) -> list[Row]:
    """Run what is left of a sweep and return all its rows.

    Args:
        model: the model; unedited again when this returns.
        plan: what to sweep.
        folder: where rows go; units it already holds are not run again.
        parts: rows by unit that jobs of the same sweep have recorded, taken over as they are.
        finish: whether to choose, combine and measure the chosen edit; a job of many does not.
    """
    parts = parts or {}
    layers = range(model.n_layers) if plan.layers is None else plan.layers
    below = [layer - 1 for layer in layers]
    resumed = resuming(model, sorted({*layers, *below}), plan.scratch)
    studies = [Study(resumed, plan, axis, folder) for axis in plan.audits]
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console()
    ) as progress:
        total = sum(1 + len(study.cells) for study in studies)
        task = progress.add_task("Sweep", total=total)

        def run(unit: str, work: Callable[[], list[Row]]) -> None:
            progress.update(task, description=unit)
            if not folder.done(unit):
                taken = parts.get(unit)
                folder.record(unit, work() if taken is None else taken)
            progress.advance(task)

        for study in studies:
            run(study.unit("unedited"), study.unedited)
            for cell in study.cells:
                run(study.unit(cell.unit), partial(study.cell, cell))
        if finish:
            for study in studies:
                _finish(study, run)
    return folder.rows()


def _finish(study: Study, run: Callable[[str, Callable[[], list[Row]]], None]) -> None:
    """Combine layers greedily, choose, and measure the chosen edit with what takes long.

    A step adds to the best edit so far others at other places, those of the front first, and goes
    on from the best of them, as long as it removes noticeably more or brings the cost within what
    is tolerated.
    """
    # A run that goes on may have combinations already, which are found again from the same cells.
    singles = [p for p in study.validated() if len(study.cells_of(p.edit)) == 1]
    if not singles:
        return  # nothing but baselines, or every cell failed, which the rows say
    best = choose(singles)
    on_front = {p.edit for p in front(singles)}
    ahead = [p for p in singles if p.removed >= WORTH_ADDING]
    ahead = sorted(ahead, key=lambda p: (p.edit in on_front, p.rank), reverse=True)
    for _ in range(study.sweep.combine - 1):
        base = study.cells_of(best.edit)
        taken = {(cell.site, cell.layer) for cell in base}
        tried: list[str] = []
        for other in ahead:
            [added] = study.cells_of(other.edit)
            if (added.site, added.layer) in taken or len(tried) == CANDIDATES:
                continue
            alike = (added.name, added.site) == (base[0].name, base[0].site)
            if not (alike or study.sweep.mix):
                continue
            parts = sorted([*base, added], key=study.cells.index)
            unit = study.unit("combined/" + " + ".join(c.unit.removeprefix("cell/") for c in parts))
            run(unit, partial(study.combination, parts))
            tried.append(unit)
        of_unit = {r.edit for r in study.folder.rows() if r.unit in tried and r.eraser}
        found = [p for p in study.validated() if p.edit in of_unit]
        better = choose([best, *found])
        if better.edit == best.edit or (
            best.cost <= 1 and better.removed < best.removed + LEAST_GAIN
        ):
            break
        best = better
    run(study.unit("choice"), study.choice)
    if any(not metric.has_baseline for metric in study.plan.metrics):
        run(study.unit("chosen"), study.afterwards)
