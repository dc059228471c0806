"""The panels of a figure before they are drawn: series of points, made from rows."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from countergen_edit.core.characters import printable
from countergen_edit.metrics.rows import Row

HEIGHT, PER_CATEGORY, PER_CELL = 2.9, 0.3, 0.17
"""Inches of a panel, of a category listed downwards, and of a row of a heat map."""
PER_LINE = 2
"""Series of one category that share a line; more have a line each."""
Ends = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """Points of one name, with the ends of their 95 % intervals; NaN without one."""

    name: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    lo: tuple[float, ...] = ()
    hi: tuple[float, ...] = ()
    kind: Literal["line", "level", "dots", "ticks", "steps", "spread", "cells"] = "line"
    """`level` is a line across the panel, `ticks` are one across each category; `spread` is every
    value with a box of quartiles, `cells` a row of a heat map from -1 to 1."""
    baseline: bool = False
    """Whether others are compared with it: its dots are hollow."""
    tips: tuple[str, ...] = ()
    """The label of each point of a `spread`."""

    @classmethod
    def of(
        cls,
        name: str,
        x: Sequence[float | str],
        rows: Sequence[Row],
        baseline: bool = False,
        kind: Literal["line", "dots", "cells"] = "dots",
    ) -> Series:
        """The values of rows with their intervals; rows without a value are left out."""
        points = [(at, row) for at, row in zip(x, rows, strict=True) if row.value is not None]
        y, lo, hi = (
            tuple(math.nan if (v := getattr(row, end)) is None else float(v) for _, row in points)
            for end in ("value", "lo", "hi")
        )
        if all(map(math.isnan, lo)):
            lo = hi = ()
        return cls(name, tuple(at for at, _ in points), y, lo, hi, kind, baseline)


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    downwards: bool = False
    """Whether `x` holds categories that are listed from top to bottom."""
    limits: Ends | None = None
    """Least ends of the axis of the values, which panels with one label share."""
    covers: Ends | None = None
    """Least range of the horizontal axis, where the values are on the other."""
    wide: bool = False
    """Whether the horizontal axis is logarithmic above 1."""
    joined: bool = False
    """Whether each dot of a category is joined to that of the baseline."""

    @property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(str(x) for s in self.series for x in s.x))

    @property
    def is_heat_map(self) -> bool:
        return self.series[0].kind == "cells"

    @property
    def height(self) -> float:
        if self.is_heat_map:
            return 0.9 + PER_CELL * len(self.series)
        if not self.sideways:
            return HEIGHT
        lines = 1.5 * sum(s.kind == "spread" for s in self.series)
        if self.downwards:
            is_tall = self.joined and len(self.dots) > PER_LINE
            lines = (1.5 if is_tall else 1) * len(self.categories)
        return 0.9 + PER_CATEGORY * (lines + 0.6 * (len(self.heading) - 1))

    @property
    def dots(self) -> list[Series]:
        return [s for s in self.series if s.kind == "dots" and not s.baseline]

    @property
    def sideways(self) -> bool:
        """Whether its values lie along the horizontal axis."""
        return self.downwards or any(s.kind == "spread" for s in self.series)

    @property
    def measure(self) -> str:
        return self.x_label if self.sideways else self.y_label

    @property
    def heading(self) -> list[str]:
        """The lines of its title, two at most."""
        most = 28 if self.downwards else 46
        text = fitting(self.title, 3 * most)
        lines = textwrap.wrap(text, most, max_lines=2, placeholder=" …", break_on_hyphens=False)
        return lines or [""]


def fitting(text: str, most: int = 34) -> str:
    """A text as a printable label of one line."""
    text = " ".join(printable(text).split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
