"""The panels of a figure before they are drawn: series of points, made from rows."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from countergen_edit.core.characters import printable
from countergen_edit.metrics.results import NO_EDIT, Results, State
from countergen_edit.metrics.rows import Row

HEIGHT, PER_CATEGORY = 2.9, 0.3
"""Inches of a panel, and of one category that is listed downwards."""
PER_CELL = 0.17
"""Inches of a row of a heat map."""
PER_LINE = 2
"""Series of one category that share a line; more have a line each."""


@dataclass(frozen=True)
class Series:
    """Points of one name; `lo` and `hi` are the ends of 95 % intervals."""

    name: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    lo: tuple[float, ...] = ()
    hi: tuple[float, ...] = ()
    kind: Literal["line", "level", "dots", "ticks", "steps", "bars", "spread", "cells"] = "line"
    """`level` is a line across the panel, `ticks` are one across each category; `spread` is every
    value with a box of quartiles, `cells` a row of a heat map from -1 to 1."""
    baseline: bool = False
    """Whether others are compared with it: its dots are hollow."""
    tips: tuple[str, ...] = ()
    """What each point of a `spread` is of."""
    box: tuple[float, ...] = ()
    """The quartiles of a `spread`; those of its values if empty."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    downwards: bool = False
    """Whether `x` holds categories that are listed from top to bottom."""
    limits: tuple[float, float] | None = None
    """Least ends of the axis of the values, which panels with one label share."""
    covers: tuple[float, float] | None = None
    """Least range of the horizontal axis."""
    wide: bool = False
    """Whether the horizontal axis is logarithmic above 1."""
    joined: bool = False
    """Whether each dot of a category is joined to that of the baseline."""

    @property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(str(x) for s in self.series for x in s.x))

    @property
    def is_heat_map(self) -> bool:
        """Whether every series is a row of cells."""
        return self.series[0].kind == "cells"

    @property
    def height(self) -> float:
        """Inches."""
        if self.is_heat_map:
            return 0.9 + PER_CELL * len(self.series)
        count = len(self.categories) if self.downwards else 0
        spread = 1.5 * sum(s.kind == "spread" for s in self.series)
        if not (count or spread):
            return HEIGHT
        room = 1.5 if self.joined and len(self.dots) > PER_LINE else 1
        lines = room * count if count else spread
        return 0.9 + PER_CATEGORY * (lines + 0.6 * (len(self.heading) - 1))

    @property
    def across(self) -> list[float]:
        """Its numbers along the horizontal axis."""
        return [x for s in self.series for x in s.x if not isinstance(x, str)]

    @property
    def dots(self) -> list[Series]:
        """Its series of dots, without the baseline's."""
        return [s for s in self.series if s.kind == "dots" and not s.baseline]

    @property
    def sideways(self) -> bool:
        """Whether its values lie along the horizontal axis."""
        return self.downwards or any(s.kind == "spread" for s in self.series)

    @property
    def measure(self) -> str:
        """The label of the axis of its values."""
        return self.x_label if self.sideways else self.y_label

    @property
    def heading(self) -> list[str]:
        """The lines of its title, two at most."""
        most = 28 if self.downwards else 46
        look: dict[str, Any] = {"max_lines": 2, "placeholder": " …", "break_on_hyphens": False}
        return textwrap.wrap(fitting(self.title, 3 * most), most, **look) or [""]


def fitting(text: str, most: int = 34) -> str:
    """A text as a printable label of one line.

    >>> fitting("a very\\n long continuation of a prompt", 12)
    'a very long…'
    """
    text = " ".join(printable(text).split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def edit_dots(results: Results, row: Row, metric: str | None = None) -> list[Series]:
    """One dot for each compared edit, about the data of a row."""
    return [
        dots(label, [label], [other], results.is_reference(edit))
        for edit, label in ((edit, results.label(edit)) for edit in results.compared)
        if (other := results.under(row, edit, metric)) is not None and other.value is not None
    ]


def dots(
    name: str,
    x: Sequence[float | str],
    rows: Sequence[Row],
    baseline: bool = False,
    kind: Literal["dots", "line"] = "dots",
) -> Series:
    """Rows as dots with their intervals, or as a line with its band."""
    pairs = [(at, row) for at, row in zip(x, rows, strict=True) if row.value is not None]
    at, known = tuple(at for at, _ in pairs), [row for _, row in pairs]
    y = tuple(row.value or 0.0 for row in known)
    if kind == "dots" and any(row.lo is not None for row in known):
        known = [r if r.lo is not None else replace(r, lo=r.value, hi=r.value) for r in known]
    if any(row.lo is None or row.hi is None for row in known):
        return Series(name, at, y, kind=kind, baseline=baseline)
    lo, hi = (tuple(getattr(row, end) for row in known) for end in ("lo", "hi"))
    return Series(name, at, y, lo, hi, kind, baseline)


def line(
    name: str, x: Sequence[float | str], rows: Sequence[Row], baseline: bool = False
) -> Series:
    """Rows as a line with its band."""
    return dots(name, x, rows, baseline, "line")


def state_panels(
    title: str,
    unit: str,
    states: Sequence[State],
    labels: Mapping[Hashable, str],
    of: Callable[[State], Mapping[Hashable, Row]],
    beside: Sequence[Series] = (),
    limits: tuple[float, float] | None = None,
    covers: tuple[float, float] | None = None,
) -> list[Panel]:
    """A panel with a dot of every state at each category; none without a row.

    `labels` are of the categories, by the keys of the rows of a state; `beside` are further series.
    """
    series = []
    for state in states:
        rows = of(state)
        known = [(label, rows[key]) for key, label in labels.items() if key in rows]
        own = dots(state.name, [x for x, _ in known], [row for _, row in known], state.baseline)
        series += [own] if own.x else []
    if not series:
        return []
    return [Panel(title, unit, "", (*series, *beside), True, limits, covers, joined=True)]


def ticks(name: str, values: Mapping[str, float]) -> Series:
    """A reference line across each category."""
    return Series(name, (*values,), (*values.values(),), kind="ticks", baseline=True)


def level(row: Row, name: str = NO_EDIT) -> Series:
    """A row as a line across the panel."""
    return Series(name, (), (row.value or 0.0,), kind="level", baseline=True)
