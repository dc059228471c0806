"""What a page of several runs shows, in order: all runs side by side, metric by metric, and each.

Comes in: runs with their names. Goes out: rows about several runs together, and sections. Of runs
of several tasks, what is said of each task stands below the other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from countergen_edit.metrics.results import Side
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.axes import on_shared_axes
from countergen_edit.reports.blocks import Block, Cell, Section, Table
from countergen_edit.reports.sections import OVERVIEW, in_order, merged, task_by_task
from countergen_edit.reports.unedited import without_edits
from countergen_edit.reports.views.base import View

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

COLUMNS = ("model", "seed", "command", "fingerprint")
"""What of a manifest tells how a run was made."""


def by_task(runs: Sequence[Run], names: Sequence[str]) -> dict[str, list[Side]]:
    """The runs as sides of each task that several have; runs of one task each are of the same."""
    parts = [run.by_task() for run in runs]
    alone = all(len(part) == 1 for part in parts)
    tasks: dict[str, list[Side]] = {}
    for run, name, part in zip(runs, names, parts, strict=True):
        for task, own in part.items():
            model = str(run.manifest.get("model", ""))
            tasks.setdefault("" if alone else task, []).append(Side(name, own.results, model))
    return {task: sides for task, sides in tasks.items() if len(sides) > 1}


def views_of(runs: Sequence[Run]) -> list[View]:
    """The views of every metric that may have rows in any of the runs."""
    return [*{(view.metric, type(view)): view for run in runs for view in run.views}.values()]


def pooled(runs: Sequence[Run], sides: Sequence[Side]) -> list[Row]:
    """The rows about several runs of a task together."""
    return [row for view in views_of(runs) for row in view.pooled(sides)]


def sections(
    runs: Sequence[Run], names: Sequence[str], overview: Sequence[Block]
) -> tuple[Section, ...]:
    """The sections of a page.

    Args:
        runs: two or more.
        names: what tells them apart.
        overview: what it begins with.
    """
    of_tasks = {
        task: merged(
            section
            for view in views_of(runs)
            for section in view.over_runs(sides, view.pooled(sides))
        )
        for task, sides in by_task(runs, names).items()
    }
    parts = next(iter(of_tasks.values())) if len(of_tasks) == 1 else task_by_task(of_tasks)
    shown = [Section(OVERVIEW, "Overview", tuple(overview)), *parts]
    if all(run.results.is_unedited for run in runs):
        shown = [*map(without_edits, shown)]
    return tuple(on_shared_axes(in_order([*shown, _runs(runs, names)])))


def _runs(runs: Sequence[Run], names: Sequence[str]) -> Section:
    """What each run is, and where."""
    lines: list[tuple[Cell, ...]] = []
    for run, name in zip(runs, names, strict=True):
        values = (run.manifest.get(key, "") for key in COLUMNS)
        told = (" ".join(map(str, v)) if isinstance(v, list) else str(v) for v in values)
        lines.append((name, *told, str(len(run.results.rows)), str(Path(run.path))))
    columns = ("run", *COLUMNS, "rows", "folder")
    note = "Each folder is a run of its own, with all its rows; countergen-edit report shows it."
    return Section("run", "The runs", (Table("runs", "The runs", columns, tuple(lines), note),))
