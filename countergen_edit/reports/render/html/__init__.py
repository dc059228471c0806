"""A report as one HTML page that fetches nothing; its template, style and script lie beside this.

The template escapes every text, and the page's policy runs no script but its own.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from countergen_edit.core.writing import whole
from countergen_edit.metrics.results import NO_EDIT
from countergen_edit.reports.blocks import (
    FULL_SHADE,
    Cell,
    Figure,
    Number,
    Section,
    Table,
    Tokens,
    Words,
    unfolded,
)
from countergen_edit.reports.glossary import terms_by_block
from countergen_edit.reports.render.figures import Style, Styles, inline_svg

REPORT = "report.html"
SHORT, LONG = 30, 60
"""Characters of a text that stays on one line, and of one that gets more room."""
EDIT = re.compile(r"\S+( \+ \S+)*( \([^)]*\))*")
"""The name of an edit, which is no sentence."""
LINES = {"level": "╌", "bars": "■", "ticks": "❙"}
"""Glyphs of series without marks."""


def write_page(
    parts: Sequence[Section],
    path: Path,
    *,
    title: str,
    kind: str,
    about: Sequence[str],
    erasers: Sequence[str] = (),
) -> Path:
    """Write the page of some sections; its path.

    Parameters
    ----------
    parts : a tab each
    path : of the page
    title : its heading
    kind : the line above the heading
    about : facts below the heading
    erasers : of the report; each has one style throughout

    Raises
    ------
    UserError
        It cannot be written.
    """
    text = render(parts, title=title, kind=kind, about=about, erasers=erasers)
    with whole(path) as temporary:
        temporary.write_text(text, "utf-8", errors="replace")
    return path


def fragment(section: Section | None) -> str:
    """The words and tables of a section as bare HTML, for a notebook."""
    if section is None:
        return ""
    return _environment().get_template("fragment.html.jinja").render(section=section)


def render(
    parts: Sequence[Section],
    *,
    title: str,
    kind: str,
    about: Sequence[str],
    erasers: Sequence[str] = (),
) -> str:
    """The page of some sections; its head repeats its first sentence, which the index reads."""
    here = files(__package__)
    css, js = (here / "report.css").read_text("utf-8"), (here / "report.js").read_text("utf-8")
    script = base64.b64encode(hashlib.sha256(js.encode()).digest()).decode()
    words = (b for part in parts[:1] for b in unfolded(part.blocks) if isinstance(b, Words))
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            title=title,
            kind=kind,
            about=about,
            says=next((sentence for block in words for sentence in block.sentences), ""),
            sections=parts,
            css=Markup(css),
            js=Markup(js),
            policy=f"default-src 'none'; script-src 'sha256-{script}'; style-src 'unsafe-inline'; "
            "img-src data:; base-uri 'none'; form-action 'none'",
            styles=Styles([figure.panels for part in parts for figure in part.figures()], erasers),
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    functions = (
        anchor,
        breakable,
        drawings,
        groups,
        in_numbers,
        is_long,
        legend,
        numeric_columns,
        partition,
        shaded,
        swatch,
        terms_by_block,
    )
    environment.globals |= {function.__name__: function for function in functions}
    environment.globals |= {
        "is_number": lambda cell: isinstance(cell, Number),
        "is_short": lambda text: isinstance(text, str) and len(text) <= SHORT,
    }
    return environment


def is_long(cell: Cell) -> bool:
    """Whether a cell needs room."""
    return isinstance(cell, Tokens) or (isinstance(cell, str) and len(cell) > LONG)


def partition(sentence: str) -> tuple[str, str, str]:
    """A sentence and the verdict that it begins with.

    >>> partition("Biased: by far"), partition("No verdict here, nor later: see")
    (('Biased', ':', 'by far'), ('', '', 'No verdict here, nor later: see'))
    """
    first, colon, rest = sentence.partition(": ")
    return (first, ":", rest) if colon and len(first.split()) <= 2 else ("", "", sentence)


def breakable(name: str) -> Markup:
    """A name that may break before its place.

    >>> breakable("R, inlp-8@resid_post.1")
    Markup('R, inlp-8<wbr>@resid_post.1')
    """
    return Markup("<wbr>@").join(name.split("@"))


def shaded(tokens: Tokens) -> list[tuple[str, float, str, int]]:
    """Each token's text, its value, its sign and its strength in percent."""
    return [
        (
            piece.replace("\n", "⏎"),
            value,
            "up" if value > 0 else "down",
            round(100 * min(1.0, abs(value) / FULL_SHADE)),
        )
        for piece, value in zip(tokens.pieces, tokens.values, strict=True)
    ]


def anchor(name: str) -> str:
    """A section's name as an address within the page.

    >>> anchor("my tab"), anchor("costs")
    ('my-tab', 'costs')
    """
    return re.sub(r"[^\w-]+", "-", name)


def groups(table: Table) -> list[tuple[Cell, list[tuple[Cell, ...]]]]:
    """The rows of a table by the cell that they share."""
    by_group: dict[Cell, list[tuple[Cell, ...]]] = {}
    for row in table.rows:
        by_group.setdefault(row[0] if table.grouped else "", []).append(row)
    return list(by_group.items())


def numeric_columns(table: Table) -> list[bool]:
    """Whether each column contains numbers, which are aligned to the right."""

    def is_figure(cell: Cell) -> bool:
        return isinstance(cell, Number) or (
            isinstance(cell, str) and (not cell or cell.isdecimal())
        )

    columns = [[row[i] for row in table.rows] for i in range(len(table.columns))]
    return [any(cells) and all(map(is_figure, cells)) for cells in columns]


def swatch(name: str, styles: Styles) -> Style | None:
    """The style of the edit that a cell or heading names; None for other texts.

    >>> found = swatch("R, inlp-8@resid_post.4", Styles())
    >>> found.variable, found.glyph, swatch("inlp is slow", Styles())
    ('var(--series-1)', '■', None)
    """
    last = name.rpartition(", ")[2].removeprefix("→ ")
    return styles.of(last) if last == NO_EDIT or EDIT.fullmatch(last) else None


def legend(figure: Figure, styles: Styles) -> dict[str, tuple[str, str]]:
    """The colour and glyph of each series; empty where all stand beside their names."""
    if all(p.downwards and all({*s.x} == {s.name} for s in p.series) for p in figure.panels):
        return {}
    drawn = styles.figure(figure.panels)
    entries: dict[str, tuple[str, str]] = {}
    for s in (s for panel in figure.panels for s in panel.series):
        style = drawn[s.name]
        entries.setdefault(s.name, (style.variable, LINES.get(s.kind, style.glyph)))
    return entries


def drawings(figure: Figure, key: str, styles: Styles) -> list[Markup]:
    """The panels of a figure as inline SVG, which an XML library has escaped."""
    drawn = styles.figure(figure.panels)
    return [Markup(inline_svg(panel, f"{key}-{i}", drawn)) for i, panel in enumerate(figure.panels)]


def in_numbers(figure: Figure) -> Table:
    """The points of a figure as a table."""
    lines: list[tuple[Cell, ...]] = []
    for panel in figure.panels:
        for s in panel.series:
            for i, y in enumerate(s.y):
                at = str(s.x[i]) if i < len(s.x) else s.tips[i] if i < len(s.tips) else ""
                lo, hi = (s.lo[i], s.hi[i]) if s.lo else (None, None)
                place = "" if at == s.name else at
                lines.append((panel.title, s.name, place, Number(y, lo, hi, digits=4)))
    columns = ("panel", "series", "at", "value")
    return Table(figure.name, f"{figure.title}, in numbers", columns, tuple(lines))
