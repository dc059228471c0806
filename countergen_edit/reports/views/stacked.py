"""Tables, figures and means over several runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from countergen_edit.metrics.results import Results, Side
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Table
from countergen_edit.reports.panels import Panel, line

RUN = "run"
"""The column of the runs' names."""
AVERAGE = "average"


def stacked(sides: Sequence[Side], make: Callable[[Results], Table | None]) -> Table | None:
    """The tables of all runs as one, with a column of the runs' names; None without any."""
    made = [(side.name, table) for side in sides if (table := make(side.results)) is not None]
    if not made:
        return None
    first = made[0][1]
    columns = list(dict.fromkeys(column for _, table in made for column in table.columns))
    at = 1 if first.grouped else 0  # after the column of the groups
    lines: list[tuple[Cell, ...]] = []
    for name, table in made:
        for row in table.rows:
            cells = dict(zip(table.columns, row, strict=True))
            whole = [cells.get(column, "") for column in columns]
            lines.append((*whole[:at], name, *whole[at:]))
    if first.grouped:
        order = list(dict.fromkeys(row[0] for row in lines))
        lines.sort(key=lambda row: order.index(row[0]))
    return replace(first, columns=(*columns[:at], RUN, *columns[at:]), rows=tuple(lines))


def means(sides: Sequence[Side], metric: str) -> list[Row]:
    """Means of a metric over the runs of unedited models, where two or more have it.

    They have no interval: the models at hand are no sample. `n` counts the runs.
    """
    about: dict[tuple[object, ...], list[tuple[str, Row]]] = {}
    for side in sides:
        for row in side.results.unedited(metric):
            if row.value is not None:
                about.setdefault(row.key[2:], []).append((side.name, row))
    return [
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
        for known in about.values()
        if len(known) > 1
        for first in [known[0][1]]
    ]


def by_facet(
    sides: Sequence[Side], metric: str, facet: str, title: str, y_label: str, x_label: str = ""
) -> Panel | None:
    """A metric by a numeric facet, with a line for each run and edit; None without a row."""
    series = []
    for side, edit in each(sides):
        if rows := side.results.of(metric, edit=edit):
            x = [float(row.facets[facet]) for row in rows]
            series.append(line(side.label(edit), x, rows))
    return Panel(title, x_label or facet, y_label, tuple(series)) if series else None


def each(sides: Iterable[Side]) -> list[tuple[Side, str]]:
    """Every run under each compared edit, the unedited model first."""
    return [(side, edit) for side in sides for edit in side.edits]
