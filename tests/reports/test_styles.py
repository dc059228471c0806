"""An eraser looks the same on every page: drawings and marks in tables follow from its name."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from importlib.resources import files
from itertools import combinations

import pytest

from countergen_edit.edits.record import COMBINED, PROMPTING, TEMPLATE
from countergen_edit.erasers.base import ERASERS
from countergen_edit.reports.blocks import Figure, Section, Table
from countergen_edit.reports.panels import Panel, Series
from countergen_edit.reports.render.figures import FIXED, Styles
from countergen_edit.reports.render.html import drawings, legend, render
from countergen_edit.runs.baselines import RANDOM_MAP, STEERING
from countergen_edit.runs.files import ORIGINAL

OWN = ("mine", "her.py:Own", "third")


def figure(*names: str, baselines: tuple[str, ...] = ("unedited", "random-1")) -> Figure:
    dots = [Series(n, (1.0, 2.0), (0.3, 0.4), kind="dots", baseline=n in baselines) for n in names]
    return Figure("f", "F", (Panel("p", "x", "y", tuple(dots)),), "")


def drawn(*names: str, own: tuple[str, ...] = OWN) -> dict[str, tuple[str, ...]]:
    """How the marks of each series look in the drawing: colours, and the outline of the marker."""
    whole = figure(*names)
    [svg] = drawings(whole, "k", Styles([whole.panels], own))
    root = ET.fromstring(svg)
    shapes = {e.get("id"): e.get("d") for e in root.iter("path") if e.get("id")}
    looks = {}
    for use in root.iter("use"):
        name = (use.get("data-tip") or "").partition(", ")[0]
        if name:
            style = "".join(re.findall(r"var\([^)]+\)|none", use.get("style") or ""))
            looks[name] = (style, re.sub(r"\s+", " ", shapes[(use.get("href") or "")[1:]] or ""))
    assert {*looks} == {*names}
    return looks


def test_an_eraser_is_drawn_alike_whatever_stands_beside_it() -> None:
    audit = drawn("unedited", "preserving-3@resid_post.2", "random-1")
    sweep = drawn("rlace", "leace-1", *audit, "mine-2")
    for name in audit:
        assert audit[name] == sweep[name], name
    assert drawn("mine-2", "leace-1")["mine-2"] == sweep["mine-2"]


def test_every_eraser_looks_different_from_every_other() -> None:
    ours = [name for name in ERASERS if ".py:" not in name]  # other tests bring their own
    names = (*ours, *OWN, "unedited", PROMPTING, TEMPLATE, STEERING, RANDOM_MAP, COMBINED)
    assert {*ours, *names[-6:], ORIGINAL} <= {*FIXED}
    names = tuple(dict.fromkeys("random-1" if name == "random" else name for name in names))
    looks = drawn(*names)
    for a, b in combinations(names, 2):
        assert looks[a] != looks[b], (a, b)


def test_what_edits_are_held_against_is_dark_and_light() -> None:
    looks = drawn("unedited", "random-1")
    assert "var(--unedited)" in looks["unedited"][0]
    assert "var(--random)" in looks["random-1"][0]
    for colour in ("unedited", "random"):
        assert colour not in "".join(look for look, _ in drawn("female", "leace").values())


def test_what_is_no_eraser_looks_like_none() -> None:
    others = drawn("B", "V_gp", "V_pg", "female", "male").values()
    assert not {*others} & {*drawn(*(name for name in ERASERS if name != "random")).values()}
    assert len({*others}) == 5


def test_two_edits_of_one_eraser_share_its_colour_and_are_told_apart() -> None:
    looks = drawn("leace-1@resid_post.2", "leace-1@resid_post.3")
    (first, a), (second, b) = looks.values()
    assert first == second
    assert a != b


def lit(page: str, name: str) -> set[tuple[str, str]]:
    """Colour and glyph of every mark that stands before a name on a page."""
    mark = r'<span class="(?:mark|swatch)" style="color: ([^"]+)" aria-hidden="true">(.)</span> ?'
    return set(re.findall(mark + re.escape(name) + "<", page.replace("<wbr>", "")))


SEVERAL = ["leace-1@mlp_out.2", "leace-1@mlp_out.3", "leace-1@mlp_out.4"]


@pytest.mark.parametrize(
    "name", ["leace-1", "unedited", "random-1", "mine-2", "asking (alike)", *SEVERAL]
)
def test_tables_and_legends_mark_a_name_alike(name: str) -> None:
    table = Table("t", "T", ("edit", name), ((name, "1"), ("leace is slow", "2")))
    several, two = figure(*SEVERAL), figure("leace-1", "preserving-2", name)
    parts = [Section("s", "S", (several, two, figure("leace"), table))]
    page = render(parts, title="", kind="", about=[], erasers=OWN)
    assert len(lit(page, name)) == 1, lit(page, name)
    assert lit(page, "leace is slow") == set()
    assert lit(page, "leace") == lit(page, SEVERAL[0]) == {("var(--series-2)", "▲")}


def test_the_page_has_every_colour_in_light_and_in_dark() -> None:
    css = (files("countergen_edit.reports.render.html") / "report.css").read_text("utf-8")
    _, light, dark = css.split(":root {", 2)
    names = ("unedited", "random-1", *ERASERS, *OWN, "asking", "a", "b", "c", "d")
    used = {colour for colour, _ in legend(figure(*names), Styles(custom=OWN)).values()}
    for colour in used:
        variable = colour.removeprefix("var(").removesuffix(")")
        assert f"{variable}:" in light, variable
        assert f"{variable}:" in dark.partition("}")[0], variable
