"""What metrics share where they show several runs together: stacked tables, means over models.

Comes in: runs that are held against each other. Goes out: plain tables and figures, and rows of
means. An average over models is over those at hand, which are no sample of any: it has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Table
from countergen_edit.reports.panels import Panel, line

RUN = "run"
"""What the column that tells runs apart is called."""
AVERAGE = "average"


def stacked(sides: Sequence[Side], make: Callable[[Results], Table | None]) -> Table | None:
    """A table of every run as one, a column telling the runs apart; None where no run has it.

    Columns that only some runs have are empty in the others.
    """
    made = [(side.name, table) for side in sides if (table := make(side.results)) is not None]
    if not made:
        return None
    first = made[0][1]
    columns = list(dict.fromkeys(column for _, table in made for column in table.columns))
    at = 1 if first.grouped else 0  # behind what rows are grouped by
    lines: list[tuple[Cell, ...]] = []
    for name, table in made:
        for row in table.rows:
            cells = dict(zip(table.columns, row, strict=True))
            whole = [cells.get(column, "") for column in columns]
            lines.append((*whole[:at], name, *whole[at:]))
    if first.grouped:
        order = list(dict.fromkeys(row[0] for row in lines))
        lines.sort(key=lambda row: order.index(row[0]))
    titles = (*columns[:at], RUN, *columns[at:])
    return replace(first, columns=titles, rows=tuple(lines))


def means(sides: Sequence[Side], metric: str) -> list[Row]:
    """Means of a metric over runs of unedited models, of all that two of them are about.

    `n` is the number of runs, and `detail` names them.
    """
    about: dict[tuple[object, ...], list[tuple[str, Row]]] = {}
    for side in sides:
        for row in side.results.unedited(metric):
            if row.value is not None:
                about.setdefault(row.key[2:], []).append((side.name, row))
    pooled = []
    for known in about.values():
        if len(known) < 2:
            continue
        first = known[0][1]
        pooled.append(
            Row(
                metric=metric,
                value=math.fsum(row.value or 0.0 for _, row in known) / len(known),
                dataset=first.dataset,
                axis=first.axis,
                group_a=first.group_a,
                group_b=first.group_b,
                facets=first.facets,
                split=first.split,
                n=len(known),
                detail={AVERAGE: [name for name, _ in known]},
            )
        )
    return pooled


def by_facet(
    sides: Sequence[Side], metric: str, facet: str, title: str, y_label: str, x_label: str = ""
) -> Panel | None:
    """A metric by a facet that is a number, a line for each run and edit, if any has it."""
    series = []
    for side, edit in each(sides):
        if rows := side.results.of(metric, edit=edit):
            x = [float(row.facets[facet]) for row in rows]
            series.append(line(side.label(edit), x, rows))
    return Panel(title, x_label or facet, y_label, tuple(series)) if series else None


def each(sides: Iterable[Side]) -> list[tuple[Side, str]]:
    """Every run under each edit that is compared, the unedited model first."""
    return [(side, edit) for side in sides for edit in side.edits]
