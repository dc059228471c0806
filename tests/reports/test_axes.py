"""Axes of one measure are the same everywhere on a page, and begin at 0 or at what is neutral."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.figure import Figure as Drawing

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Figure, Fold, Section
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.render.figures import Styles, draw_panel
from countergen_edit.reports.sections import on_shared_axes, sections
from tests.reports.runs import audit_rows, columns, in_memory, text_rows

Axis = tuple[str, tuple[float, float], list[float]]
RATIO = "(1 = "
"""How the label of an axis that begins at 1 says so."""


def axes_of(panel: Panel) -> list[Axis]:
    """Of each axis of a measure as it is drawn: its label, its ends, and the values along it."""
    ax = Drawing().subplots()
    draw_panel(ax, panel, Styles([[panel]]).figure([panel]))
    values = [v for s in panel.series for v in (*s.y, *s.lo, *s.hi)]
    across = (ax.get_xlabel(), ax.get_xlim(), values)
    if panel.downwards or panel.is_spread:
        return [across]
    along = (
        [(ax.get_xlabel(), ax.get_xlim(), panel.across)]
        if panel.covers and ax.get_xlabel() != "layer"
        else []
    )
    return [(ax.get_ylabel(), ax.get_ylim(), values), *along]


def drawn(parts: list[Section]) -> list[Axis]:
    figures = [figure for part in parts for figure in part.figures()]
    return [axis for f in figures for panel in f.panels for axis in axes_of(panel)]


@pytest.mark.parametrize("rows", [audit_rows(), text_rows()], ids=["audit", "texts"])
def test_axes_of_one_measure_are_shared_on_a_page_and_hide_nothing(rows: list[Row]) -> None:
    edited = [replace(r, **columns("leace", 3)) for r in rows if r.eraser == "leace"]
    axes = drawn(sections(in_memory([*rows, *edited])))
    assert len(axes) > 4
    by_label: dict[str, set[tuple[float, float]]] = {}
    for label, (low, high), values in axes:
        by_label.setdefault(label, set()).add((low, high))
        assert low <= min(values), label
        assert high >= max(values), label
        least = 1 if RATIO in label else 0
        assert low == pytest.approx(least) or min(values) <= low + 0.06 * (high - low), label
        assert low <= least, label
    assert {label: len(ends) for label, ends in by_label.items()} == dict.fromkeys(by_label, 1)


def panel(label: str, *values: float, **more: object) -> Panel:
    dots = Series("a", tuple(map(str, range(len(values)))), values, kind="dots")
    return Panel("p", label, "", (dots,), downwards=True, **more)  # type: ignore[arg-type]


def test_what_is_folded_away_has_the_axis_of_the_rest() -> None:
    one, two = (
        Figure("f", "", (panel("nats", 0.2),), ""),
        Figure("g", "", (panel("nats", 4.0),), ""),
    )
    page = [Section("s", "", (one, Fold("", (two,)))), Section("t", "", (one,))]
    assert {ends for _, ends, _ in drawn(on_shared_axes(page))} == {(0.0, 4.2)}


def test_measures_of_other_names_have_axes_of_their_own() -> None:
    both = Figure("f", "", (panel("nats", 0.2), panel("share", -0.5, 0.5)), "")
    ends = [ends for _, ends, _ in drawn(on_shared_axes([Section("s", "", (both,))]))]
    assert ends == [(0.0, pytest.approx(0.21)), pytest.approx((-0.55, 0.55))]
