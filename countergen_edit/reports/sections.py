"""What a report shows, in order: the tabs that metrics make, and those made of all their figures.

Comes in: a run. Goes out: sections, those of one name as one; of a run of several tasks, what is
said of each below the other's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from countergen_edit.reports.axes import on_shared_axes
from countergen_edit.reports.blocks import Block, Figure, Fold, Section, Table, Words
from countergen_edit.reports.overview import costs, overview
from countergen_edit.reports.provenance import provenance
from countergen_edit.reports.search import search
from countergen_edit.reports.unedited import without_edits

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

OVERVIEW, CHANGED = "overview", "original"
OTHERS = "…"
"""Stands for the tabs of users' metrics, in the order of their names."""
ORDER = (
    OVERVIEW,
    CHANGED,
    "search",
    "bias",
    "layers",
    "costs",
    "other_axes",
    "paraphrases",
    "fairpair",
    "cid",
    "classifiers",
    OTHERS,
    "examples",
    "run",
)
"""Tabs in their order."""


def sections(run: Run) -> list[Section]:
    """The sections that a run has something for."""
    tasks = run.by_task()
    of_tasks = {task: merged(of_task(part)) for task, part in tasks.items()}
    parts = next(iter(of_tasks.values())) if len(tasks) == 1 else task_by_task(of_tasks)
    if run.original is not None:
        parts = against_original(run, run.original, parts)
    return on_shared_axes(in_order([*parts, provenance(run)]))


def against_original(run: Run, original: Run, parts: Sequence[Section]) -> list[Section]:
    """The tabs of a checkpoint, with what it changed against the model that it was made of.

    What it changed in words stands first of all, where the two share prompts.
    """
    from countergen_edit.reports.comparison import comparison  # late: it shows sections, too

    found = comparison([original, run], int(run.manifest.get("seed", 0)))
    tables = (found.paired, found.figures, found.side_by_side)
    blocks: list[Block] = [table for table in tables if table is not None]
    said = next(iter(found.sections), Section("", "")).blocks
    words = [block for block in said if isinstance(block, Words)]
    of_run = [
        replace(part, blocks=(*words, *part.blocks)) if part.name == OVERVIEW else part
        for part in parts
    ]
    return [*of_run, Section(CHANGED, "Against its original", tuple(blocks))]


def in_order(parts: Iterable[Section]) -> list[Section]:
    """Tabs in their order."""
    return sorted(parts, key=_place)


def of_task(run: Run) -> list[Section]:
    """What a run of one task shows."""
    parts = [overview(run), search(run), costs(run)]
    parts += [section for view in run.views for section in view.sections(run.results)]
    shown = [section for section in parts if section is not None and section.blocks]
    return [*map(without_edits, shown)] if run.results.is_unedited else shown


def overview_of(run: Run) -> Section | None:
    """The overview alone, of every task."""
    overviews = {task: overview(part) for task, part in run.by_task().items()}
    of_tasks = {task: [section] for task, section in overviews.items() if section is not None}
    if len(of_tasks) < 2:
        return next((section for [section] in of_tasks.values()), None)
    return task_by_task(of_tasks)[0]


def merged(parts: Iterable[Section]) -> list[Section]:
    """Sections of one name as one, under the title of the first.

    >>> parts = [Section("bias", "Bias", (Words(("a",)),)), Section("bias", "B", (Words(("b",)),))]
    >>> [(section.title, len(section.blocks)) for section in merged(parts)]
    [('Bias', 2)]
    """
    by_name: dict[str, Section] = {}
    for part in parts:
        known = by_name.get(part.name, replace(part, blocks=()))
        by_name[part.name] = replace(known, blocks=(*known.blocks, *part.blocks))
    return list(by_name.values())


def task_by_task(of_tasks: Mapping[str, Iterable[Section]]) -> list[Section]:
    """Sections of several tasks as one each, under names that tell their blocks apart."""
    parts = []
    for task, parts_of_task in of_tasks.items():
        for section in parts_of_task:
            blocks: list[Block] = [Words((f"Task: {task}",))]
            for block in section.blocks:
                if isinstance(block, Fold):
                    own = tuple(_of_task_named(part, task) for part in block.blocks)
                    blocks.append(Fold(f"{block.title}, {task}", own))
                else:
                    blocks.append(_of_task_named(block, task))
            parts.append(replace(section, blocks=tuple(blocks)))
    return merged(parts)


def _of_task_named(block: Words | Table | Figure, task: str) -> Words | Table | Figure:
    """A block under a name that tells it from another task's."""
    if isinstance(block, Words):
        return block
    return replace(block, title=f"{block.title}, {task}", name=f"{block.name}_{task}")


def _place(section: Section) -> tuple[int, str]:
    known = section.name in ORDER
    return ORDER.index(section.name if known else OTHERS), "" if known else section.name
