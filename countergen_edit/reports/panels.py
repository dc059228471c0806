"""What a figure shows, before it is drawn: panels of series, made from rows.

Comes in: rows. Goes out: series of points with their intervals, and the panels that hold them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from countergen_edit.metrics.results import NO_EDIT, Results, State
from countergen_edit.metrics.rows import Row

HEIGHT = 2.9
"""Inches of one panel."""
SCREENED = "screening (few names)"
"""What a legend calls tentative series."""
PER_CATEGORY = 0.3
"""Inches of one line of a panel whose categories are listed downwards."""

PER_LINE = 2
"""Series that share the line of a category; of more, each has room of its own."""

Kind = Literal["line", "level", "dots", "ticks", "steps", "bars", "spread"]


@dataclass(frozen=True)
class Series:
    """Points of one name, in order; `lo` and `hi` are the ends of 95 % intervals."""

    name: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    lo: tuple[float, ...] = ()
    hi: tuple[float, ...] = ()
    kind: Kind = "line"
    """`level` is a line across the panel, `ticks` are one across each category; `spread` is every
    value with its quartiles; `bars` stand at categories listed downwards, or at numbers."""
    baseline: bool = False
    """Others are held against it: its dots are hollow."""
    tips: tuple[str, ...] = ()
    """What a point says of itself, where its position does not."""
    tentative: bool = False
    """Measured on few names only: its dots are small, hollow and not joined, and widen no axis."""
    box: tuple[float, ...] = ()
    """Quartiles of a `spread`, where a table gives them; otherwise they are those of its values."""


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
    """Ends of the axis of the values. A report gives all that are called alike the same: from 0 to
    just above all values, unless these ends, or what is to be covered, say more."""
    covers: tuple[float, float] | None = None
    """What the horizontal axis covers at least, so that noise is not drawn as if it were much; of a
    ratio it may begin at 1, where its label says what 1 is."""
    wide: bool = False
    """Whether the horizontal axis is logarithmic above 1, for what spans orders of magnitude."""

    joined: bool = False
    """Whether each dot of a category is joined to that of the series which it is held against."""

    @property
    def categories(self) -> list[str]:
        """What is listed downwards, from the top."""
        return list(dict.fromkeys(str(x) for s in self.series for x in s.x))

    @property
    def height(self) -> float:
        """Inches."""
        count = len(self.categories) if self.downwards else 0
        spread = 1.5 * sum(s.kind == "spread" for s in self.series) if self.is_spread else 0
        room = 1.5 if self.joined and len(self.dots) > PER_LINE else 1
        lines = room * count + spread + 0.6 * (len(self.heading) - 1)
        return 0.9 + PER_CATEGORY * lines if count or spread else HEIGHT

    @property
    def across(self) -> list[float]:
        """Its numbers along the horizontal axis."""
        return [x for s in self.series for x in s.x if not isinstance(x, str)]

    @property
    def dots(self) -> list[Series]:
        """Its series of dots that are held against others."""
        return [s for s in self.series if s.kind == "dots" and not s.baseline]

    @property
    def is_spread(self) -> bool:
        """Whether its values lie along lines of their own, one below the other."""
        return not self.downwards and any(s.kind == "spread" for s in self.series)

    @property
    def heading(self) -> list[str]:
        """The lines of its title, two at most."""
        most = 34 if self.downwards else 46
        title = fitting(self.title, 3 * most)
        return textwrap.wrap(
            title, most, max_lines=2, placeholder=" …", break_on_hyphens=False
        ) or [""]


def fitting(text: str, most: int = 34) -> str:
    """A text as a label: on one line, printable, and no longer than what fits.

    >>> fitting("a very\\n long continuation of a prompt", 12)
    'a very long…'
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def edit_dots(results: Results, row: Row, metric: str | None = None) -> list[Series]:
    """One dot for each compared edit, about the data of a row."""
    series = []
    for edit in results.compared:
        other = results.under(row, edit, metric)
        if other is not None and other.value is not None:
            of_baseline = results.is_reference(edit)
            series.append(dots(results.label(edit), [results.label(edit)], [other], of_baseline))
    return series


def dots(
    name: str, x: Sequence[float | str], rows: Sequence[Row], baseline: bool = False
) -> Series:
    """Rows as dots with their intervals."""
    return _series("dots", name, x, rows, baseline)


def line(
    name: str, x: Sequence[float | str], rows: Sequence[Row], baseline: bool = False
) -> Series:
    """Rows as a line with its band."""
    return _series("line", name, x, rows, baseline)


def _series(
    kind: str, name: str, x: Sequence[float | str], rows: Sequence[Row], baseline: bool
) -> Series:
    pairs = [(at, row) for at, row in zip(x, rows, strict=True) if row.value is not None]
    known = all(row.lo is not None and row.hi is not None for _, row in pairs)
    y = tuple(row.value or 0.0 for _, row in pairs)
    lo = tuple(row.lo or 0.0 for _, row in pairs) if known else ()
    hi = tuple(row.hi or 0.0 for _, row in pairs) if known else ()
    tips = tuple(
        f"{name}, {at}: {value:.3f}" + (f" [{lo[i]:.3f}, {hi[i]:.3f}]" if known else "")
        if str(at) != name
        else f"{name}: {value:.3f}" + (f" [{lo[i]:.3f}, {hi[i]:.3f}]" if known else "")
        for i, ((at, _), value) in enumerate(zip(pairs, y, strict=True))
    )
    drawn = "line" if kind == "line" else "dots"
    return Series(name, tuple(at for at, _ in pairs), y, lo, hi, drawn, baseline, tips)  # type: ignore[arg-type]


def state_dots(
    states: Sequence[State],
    labels: Mapping[Hashable, str],
    of: Callable[[State], Mapping[Hashable, Row]],
) -> list[Series]:
    """A series for each state, with a dot at each category that it has a figure of.

    Args:
        states: of a model.
        labels: what each category is called.
        of: the rows of a state, by the same keys.
    """
    series = []
    for state in states:
        rows = of(state)
        known = [(label, rows[key]) for key, label in labels.items() if key in rows]
        own = dots(state.name, [x for x, _ in known], [row for _, row in known], state.baseline)
        series += [own] if own.x else []
    return series


def state_panels(
    title: str,
    unit: str,
    states: Sequence[State],
    labels: Mapping[Hashable, str],
    of: Callable[[State], Mapping[Hashable, Row]],
    beside: Sequence[Series] = (),
) -> list[Panel]:
    """A panel with the dots of every state; none where no state has a figure.

    Args:
        title: of the panel.
        unit: of its values.
        states: of a model; the first is what the others are held against.
        labels: what each category is called.
        of: the rows of a state, by the same keys.
        beside: what the dots are held against besides, such as `ticks`.
    """
    series = state_dots(states, labels, of)
    if not series:
        return []
    return [Panel(title, unit, "", (*series, *beside), downwards=True, joined=True)]


def ticks(name: str, values: Mapping[str, float]) -> Series:
    """A line across each category: what its dots are held against."""
    return Series(name, (*values,), (*values.values(),), kind="ticks", baseline=True)


def level(row: Row, name: str = NO_EDIT) -> Series:
    """A row as a line across the panel."""
    return Series(name, (), (row.value or 0.0,), kind="level", baseline=True)
