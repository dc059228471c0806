"""Figures: one look for each eraser, shared axes that hide nothing, the same files twice."""

from dataclasses import replace
from itertools import combinations

import pytest

from countergen_edit.erasers.base import ERASERS
from countergen_edit.reports.blocks import Figure
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.render.figures import FIXED, as_svg, draw, styles
from countergen_edit.reports.render.html import in_numbers
from countergen_edit.reports.sections import sections
from countergen_edit.runs.baselines import RANDOM_MAP, STEERING
from countergen_edit.runs.files import ORIGINAL
from tests.reports.runs import HARMFUL, audit_rows, columns, in_memory, text_rows


def looks(*names):
    baselines = ("unedited", "random-1")
    dots = [Series(n, (1.0, 2.0), (0.3, 0.4), kind="dots", baseline=n in baselines) for n in names]
    return styles([Panel("p", "x", "y", tuple(dots))])


def test_an_eraser_is_drawn_alike_whatever_stands_beside_it():
    audit = looks("unedited", "preserving-3@resid_post.2", "random-1")
    sweep = looks("rlace", "leace-1", *audit, "mine-2")
    assert {name: sweep[name] for name in audit} == audit
    first, second = looks("leace-1@resid_post.2", "leace-1@resid_post.3").values()
    assert (first, first.colour) == (FIXED["leace"], second.colour)
    assert first.marker != second.marker


def test_every_eraser_looks_different_from_every_other_and_from_other_names():
    ours = [name for name in ERASERS if ".py:" not in name]  # other tests bring their own
    assert {*ours, "prompting", "template", STEERING, RANDOM_MAP, ORIGINAL} <= {*FIXED}
    by_name = looks(*dict.fromkeys([*ours, *FIXED]), "B", "V_gp", "female", "male")
    for a, b in combinations(by_name, 2):
        assert by_name[a] != by_name[b], (a, b)


@pytest.mark.parametrize("rows", [audit_rows(), text_rows()], ids=["audit", "texts"])
def test_panels_of_one_measure_share_an_axis_that_hides_nothing(rows):
    edited = [replace(r, **columns("leace", 3)) for r in rows if r.eraser == "leace"]
    figures = [f for s in sections(in_memory([*rows, *edited])) for f in s.figures()]
    assert len(figures) > 2
    for figure in figures:
        limits = {}
        for ax, panel in zip(draw(figure).axes, figure.panels, strict=False):
            low, high = ax.get_xlim() if panel.sideways else ax.get_ylim()
            values = [v for s in panel.series for v in (*s.y, *s.lo, *s.hi)]
            is_cut = "(1 = " in panel.measure or "(axis cut)" in panel.title
            assert low <= min(*values, 1 if is_cut else 0)
            assert high >= max(values)
            limits.setdefault(panel.measure, set()).add((low, high))
        assert all(len(ends) == 1 for ends in limits.values())
        points = sum(len(s.y) for panel in figure.panels for s in panel.series)
        assert len(in_numbers(figure).rows) == points > 0


def test_a_dot_stands_at_its_value_and_its_bar_ends_at_its_interval():
    dots = Series("a", ("jobs",), (0.5,), (0.2,), (0.7,), kind="dots")
    [ax] = draw(Figure("f", "", (Panel("p", "nats", "", (dots,), True),), "")).axes
    assert [*ax.lines[0].get_xdata()] == [0.5]
    [bar] = ax.collections[0].get_segments()
    assert bar[:, 0] == pytest.approx([0.2, 0.7])


def test_texts_stay_texts_and_the_same_figure_gives_the_same_bytes():
    series = Series(HARMFUL, (f"{HARMFUL} $x$", "\x00b"), (1.0, 2.0), kind="dots")
    figure = Figure("f", HARMFUL, (Panel(HARMFUL, HARMFUL, "", (series,), True),), "")
    svg = as_svg(figure)
    assert b"<script" not in svg
    assert b"<img" not in svg
    assert svg == as_svg(figure)
