"""A report as one HTML page that fetches nothing; its template, style and script lie beside this.

The template escapes every text, and the page's policy runs no script but its own.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from countergen_edit.core.writing import whole
from countergen_edit.reports import blocks
from countergen_edit.reports.blocks import Cell, Figure, Number, Section, Table, plain
from countergen_edit.reports.render.figures import PANEL_COLUMNS, as_svg
from countergen_edit.reports.views.base import grouped

REPORT = "report.html"
FULL_SHADE = 0.25
"""Value of a token at which its colour is strongest."""
SHORT, LONG = 30, 60
"""Characters of a text that stays on one line, and of one that gets more room."""


def write_page(parts: Sequence[Section], path: Path, **head: Any) -> Path:
    """Write the page of `render_page`; `UserError` if it cannot be written."""
    text = render_page(parts, **head)
    with whole(path) as temporary:
        temporary.write_text(text, "utf-8", errors="replace")
    return path


def render_page(parts: Sequence[Section], *, title: str, kind: str, about: Sequence[str]) -> str:
    """The page of sections, a tab each; its head repeats its first sentence for the index.

    `kind` stands above the title, `about` are the facts below it.
    """
    here = files(__package__)
    css, js = (Markup((here / f"report.{kind}").read_text("utf-8")) for kind in ("css", "js"))
    first = [block for part in parts[:1] for block in part.blocks]
    words = (block for block in first if isinstance(block, blocks.Words))
    says = next((sentence for block in words for sentence in block.sentences), "")
    values = {"title": title, "kind": kind, "about": about, "sections": parts, "says": says}
    script = base64.b64encode(hashlib.sha256(js.encode()).digest()).decode()
    page = _environment().get_template("page.html.jinja")
    return page.render(values, css=css, js=js, script=script)


@cache
def _environment() -> Environment:
    loader = PackageLoader(__package__ or "", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    functions = (css_class, drawing, groups, in_numbers, shaded, blocks.slug)
    environment.globals |= {function.__name__: function for function in functions}
    return environment


def css_class(cell: Cell, is_numeric: bool) -> str:
    """How a cell of a column is set: as a number, on one line, or with more room."""
    if isinstance(cell, Number) or (is_numeric and len(plain(cell)) <= SHORT):
        return "number"
    length = len(cell) if isinstance(cell, str) else LONG + isinstance(cell, blocks.Tokens)
    return "short" if length <= SHORT else "long" if length > LONG else ""


def shaded(tokens: blocks.Tokens) -> list[tuple[str, float, str, int]]:
    """Each token's text, its value, its sign and its strength in percent."""
    strengths = [round(100 * min(1.0, abs(value) / FULL_SHADE)) for value in tokens.values]
    ways = ["up" if value > 0 else "down" for value in tokens.values]
    pieces = [piece.replace("\n", "⏎") for piece in tokens.pieces]
    return [*zip(pieces, tokens.values, ways, strengths, strict=True)]


def groups(table: Table) -> list[tuple[Cell, list[tuple[Cell, ...]]]]:
    """The rows of a table by the cell that they share."""
    return [*grouped(table.rows, lambda row: row[0] if table.grouped else "").items()]


def drawing(figure: Figure, columns: int = PANEL_COLUMNS) -> str:
    """A figure as the address of an image, in which no script runs."""
    return f"data:image/svg+xml;base64,{base64.b64encode(as_svg(figure, columns)).decode()}"


def in_numbers(figure: Figure) -> Table:
    """The points of a figure as a table."""
    lines: list[tuple[Cell, ...]] = []
    for panel in figure.panels:
        for s in panel.series:
            none = (None,) * len(s.y)
            points = zip(s.tips or s.x or none, s.y, s.lo or none, s.hi or none, strict=True)
            for at, *figures in points:
                value, lo, hi = (None if v is None or math.isnan(v) else v for v in figures)
                place = "" if at in (None, s.name) else str(at)
                lines.append((panel.title, s.name, place, Number(value, lo, hi, digits=4)))
    columns = ("panel", "series", "at", "value")
    return Table(figure.name, f"{figure.title}, in numbers", columns, tuple(lines))
