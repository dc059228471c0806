"""The table that papers of the field print: a line for each edit, a column for each figure.

Comes in: one run or several of one task. Goes out: a `Leaderboard`, with a caption and notes that
say what its rows do. Which figures these are, metrics say; what was not measured is a dash that is
explained. Refused: runs that measured none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from countergen_edit.core.errors import UserError
from countergen_edit.metrics.base import Metric, Standing
from countergen_edit.metrics.blocks import Number
from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.reports.over_runs import by_task, metrics_of
from countergen_edit.reports.overview import listed, number

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

NAME = "leaderboard"
"""What its files are called."""
UNIT = "%"
Head = tuple[str, str]
"""What several columns are of, and a column's own title."""
Columns = Mapping[Head, Standing]
"""The columns of one run."""


@dataclass(frozen=True)
class Line:
    """The figures of one run under one edit."""

    stubs: tuple[str, ...]
    """The run, where there are several; the edit."""
    cells: tuple[Number, ...]


@dataclass(frozen=True)
class Leaderboard:
    """A table as papers print it; whoever writes it knows no metric."""

    name: str
    caption: str
    stubs: tuple[str, ...]
    """Headings of the columns that tell lines apart."""
    heads: tuple[tuple[str, str, str], ...]
    """What several columns are of, a column's own title, and its unit; the first may be empty."""
    lines: tuple[Line, ...]
    notes: tuple[str, ...]


def leaderboards(run: Run) -> list[Leaderboard]:
    """One of each task of a run.

    Raises:
        UserError: nothing of what stands in one was measured.
    """
    model = str(run.manifest.get("model", ""))
    parts = run.by_task().items()
    made = _made({task: [Side("", part.results, model)] for task, part in parts}, run.metrics)
    if not made:
        every = [one for metric in run.metrics for one in metric.leaderboard(Results([]))]
        every.sort(key=lambda one: not one.of)
        wanted = {_called(one): one.measured_by.split()[0] for one in every if one.usual}
        raise UserError(
            f"{run.path} measured none of {', '.join(wanted)}, of which card=true makes a table: "
            f"audit with {' or '.join(dict.fromkeys(wanted.values()))}"
        )
    return made


def leaderboards_over(runs: Sequence[Run], names: Sequence[str]) -> list[Leaderboard]:
    """One of each task of several runs; none where nothing of what stands in one was measured."""
    return _made(by_task(runs, names), metrics_of(runs))


def _made(tasks: dict[str, list[Side]], metrics: Sequence[type[Metric]]) -> list[Leaderboard]:
    made = {task: _leaderboard(sides, metrics) for task, sides in tasks.items()}
    several = len(tasks) > 1
    return [
        replace(one, name=f"{NAME}_{task}", caption=f"{one.caption} Task: {task}.")
        if several
        else one
        for task, one in made.items()
        if any(cell.value is not None for line in one.lines for cell in line.cells)
    ]


def _leaderboard(sides: Sequence[Side], metrics: Sequence[type[Metric]]) -> Leaderboard:
    of_sides = [
        {(one.of, one.quantity.title): one for m in metrics for one in m.leaderboard(side.results)}
        for side in sides
    ]
    every: dict[Head, list[Standing]] = {}
    for own in of_sides:
        for head, one in own.items():
            every.setdefault(head, []).append(one)
    # What is of several columns first: costs, which stand alone, follow.
    columns = {
        head: known
        for head, known in sorted(every.items(), key=lambda item: not item[0][0])
        if any(one.usual or one.quantity.rows for one in known)
    }
    several = len(sides) > 1
    lines = []
    for side, own in zip(sides, of_sides, strict=True):
        for edit in listed(side.results):
            cells = tuple(_cell(own.get(head), edit) for head in columns)
            label = side.edit_label(edit) if several else side.results.label(edit)
            lines.append(Line((*([side.name] if several else []), label), cells))
    return Leaderboard(
        NAME,
        _caption(sides, columns),
        (*(["run"] if several else []), "edit"),
        tuple((*h, UNIT if known[0].quantity.percent else "") for h, known in columns.items()),
        tuple(lines),
        tuple(dict.fromkeys(_notes(sides, of_sides, columns))),
    )


def _cell(standing: Standing | None, edit: str) -> Number:
    """A figure as the table has it: in percent without the sign, which its heading has."""
    row = standing.quantity.rows.get(edit) if standing else None
    if standing is None or row is None:
        return Number(None)
    found = replace(number(standing.quantity, row), starred=edit in (standing.changed or ()))
    if not found.percent:
        return found
    value, lo, hi = (None if end is None else 100 * end for end in (row.value, row.lo, row.hi))
    digits = max(0, found.digits - 3)
    return replace(found, value=value, lo=lo, hi=hi, digits=digits, percent=False)


def _caption(sides: Sequence[Side], columns: Mapping[Head, Sequence[Standing]]) -> str:
    models = ", ".join(dict.fromkeys(Path(side.model).name for side in sides if side.model))
    edits = any(edit != UNEDITED for side in sides for edit in listed(side.results))
    measured: dict[str, None] = {}
    for (of, title), known in columns.items():
        if any(one.quantity.rows for one in known):
            about = " or ".join(dict.fromkeys(one.about for one in known if one.about))
            measured[f"{of or title}{f' ({about})' if about else ''}"] = None
    when = "before and after edits" if edits else "unedited"
    return f"{models or 'The model'}, {when}: {', '.join(measured)}. 95 % intervals in brackets."


def _notes(
    sides: Sequence[Side],
    of_sides: Sequence[Columns],
    columns: Mapping[Head, Sequence[Standing]],
) -> Iterator[str]:
    """What the metrics say, what was not tested, why there are dashes, and what has no line."""
    yield from (note for known in columns.values() for one in known for note in one.notes if note)
    untested = [_called(known[0]) for known in columns.values() if known[0].changed is None]
    if len(untested) < len(columns) and any(len(listed(side.results)) > 1 for side in sides):
        yield from [f"Not tested for a change: {', '.join(untested)}."] if untested else []
    absent = {
        head: known for head, known in columns.items() if not any(k.quantity.rows for k in known)
    }
    if absent:
        named = dict.fromkeys(f"{_called(k[0])} ({k[0].measured_by})" for k in absent.values())
        yield f"A dash in every line is what was not measured: {', '.join(named)}."
    gaps: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for side, own in zip(sides, of_sides, strict=True):
        for edit in listed(side.results):
            for why, heads in _gaps(own, edit, columns.keys() - absent.keys()).items():
                in_order = tuple(dict.fromkeys(_name(h) for h in columns if h in heads))
                gaps.setdefault((why, in_order), []).append(_label(side, edit, len(sides) > 1))
        if rest := len({edit.id for edit in side.results.edits} - {*listed(side.results)}):
            of = f" of {side.name}" if side.name else ""
            yield f"{rest} more edits{of} were measured and have no line here."
    for (why, names), lines in gaps.items():
        yield f"A dash of {', '.join(lines)} is {why}: {', '.join(names)}."


def _gaps(own: Columns, edit: str, heads: Collection[Head]) -> dict[str, list[Head]]:
    """The columns in which an edit has no figure, by why."""
    found: dict[str, list[Head]] = {}
    for head in heads:
        row = own[head].quantity.rows.get(edit) if head in own else None
        if row is None:
            found.setdefault("what was not measured", []).append(head)
        elif row.value is None:
            found.setdefault(str(row.detail.get("reason", "undefined")), []).append(head)
    return found


def _label(side: Side, edit: str, several: bool) -> str:
    return f"{side.name}, {side.edit_label(edit)}" if several else side.results.label(edit)


def _called(standing: Standing) -> str:
    return standing.of or standing.quantity.title


def _name(head: Head) -> str:
    return " ".join(filter(None, head))
