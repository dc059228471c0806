"""One self-contained page from the sections of a report.

Comes in: sections. Goes out: HTML that asks nothing of any network. Every text is escaped
by the template; besides, the page's policy lets no program run but its own, known by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from countergen_edit.core.writing import whole
from countergen_edit.metrics.results import NO_EDIT
from countergen_edit.reports.blocks import (
    Cell,
    Figure,
    Number,
    Section,
    Table,
    Tokens,
    Words,
    unfolded,
)
from countergen_edit.reports.panels import SCREENED, Series
from countergen_edit.reports.render.drawing import FULL_SHADE
from countergen_edit.reports.render.styles import GREY, HOLLOW, Style, Styles
from countergen_edit.reports.render.svg import inline_svg
from countergen_edit.reports.terms import terms_by_block

REPORT = "report.html"
SHORT, LONG = 30, 60
"""Characters of a name that is kept on one line, and of a text that is given room."""
EDIT = re.compile(r"\S+( \+ \S+)*( \([^)]*\))*")
"""How an edit is called, which is no sentence."""
UNEDITED_NAMES = (NO_EDIT,)
LINES = {"level": "╌", "bars": "■", "ticks": "❙"}
"""How it shows what is drawn without marks."""


@dataclass(frozen=True)
class Entry:
    """A line of a legend."""

    name: str
    colour: str
    glyph: str


def write_page(
    parts: Sequence[Section],
    path: Path,
    *,
    title: str,
    kind: str,
    about: Sequence[str],
    erasers: Sequence[str] = (),
) -> Path:
    """Write the page of some sections, whole or not at all; its path.

    Args:
        parts: a tab each.
        path: where it goes.
        title: its heading.
        kind: what made it, above the heading.
        about: what tells it from others, below the heading.
        erasers: of the report, a user's own among them; each has one style throughout.

    Raises:
        UserError: it cannot be written.
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
    """The page of some sections; its head repeats what it says first, for whoever lists pages."""
    here = files(__package__)
    css, js = (here / "report.css").read_text("utf-8"), (here / "report.js").read_text("utf-8")
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            title=title,
            kind=kind,
            about=about,
            says=next(_said(parts), ""),
            sections=parts,
            css=Markup(css),
            js=Markup(js),
            policy=_policy(js),
            styles=Styles([figure.panels for part in parts for figure in part.figures()], erasers),
        )
    )


def _said(parts: Sequence[Section]) -> Iterator[str]:
    blocks = (block for part in parts[:1] for block in unfolded(part.blocks))
    return (said for block in blocks if isinstance(block, Words) for said in block.sentences)


def _policy(js: str) -> str:
    """Nothing is fetched, and no program runs but the page's own."""
    own = base64.b64encode(hashlib.sha256(js.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{own}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    environment.globals |= {
        "is_number": lambda cell: isinstance(cell, Number),
        "is_short": lambda text: isinstance(text, str) and len(text) <= SHORT,
        "is_long": lambda cell: (
            isinstance(cell, Tokens) or len(cell) > LONG
            if isinstance(cell, Tokens | str)
            else False
        ),
        "shaded": shaded,
        "anchor": anchor,
        "breakable": breakable,
        "groups": groups,
        "numeric_columns": numeric_columns,
        "partition": verdict,
        "legend": legend,
        "drawings": drawings,
        "in_numbers": in_numbers,
        "swatch": swatch,
        "terms_by_block": terms_by_block,
    }
    return environment


def verdict(sentence: str) -> tuple[str, str, str]:
    """A sentence with the verdict that it begins with, where it has one.

    >>> verdict("Biased: by far"), verdict("No verdict here, nor later: see")
    (('Biased', ':', 'by far'), ('', '', 'No verdict here, nor later: see'))
    """
    first, colon, rest = sentence.partition(": ")
    return (first, ":", rest) if colon and len(first.split()) <= 2 else ("", "", sentence)


def breakable(name: str) -> Markup:
    """A name that may go on in the next line where its place begins.

    >>> breakable("R, inlp-8@resid_post.1")
    Markup('R, inlp-8<wbr>@resid_post.1')
    """
    return Markup("<wbr>@").join(name.split("@"))


def shaded(tokens: Tokens) -> list[tuple[str, float, str, int]]:
    """Of every token its text, its value, which way it leans and how strongly, in percent."""
    lines = []
    for piece, value in zip(tokens.pieces, tokens.values, strict=True):
        way = "up" if value > 0 else "down"
        strength = round(100 * min(1.0, abs(value) / FULL_SHADE))
        lines.append((piece.replace("\n", "⏎"), value, way, strength))
    return lines


def anchor(name: str) -> str:
    """A section's name as an address within the page, whatever a user's metric calls it.

    >>> anchor("my tab"), anchor("costs")
    ('my-tab', 'costs')
    """
    return re.sub(r"[^\w-]+", "-", name)


def groups(table: Table) -> list[tuple[Cell, list[tuple[Cell, ...]]]]:
    """Its rows below what they share, or all of them below nothing."""
    by_group: dict[Cell, list[tuple[Cell, ...]]] = {}
    for row in table.rows:
        by_group.setdefault(row[0] if table.grouped else "", []).append(row)
    return list(by_group.items())


def numeric_columns(table: Table) -> list[bool]:
    """Of every column, whether it holds figures and is set to the right."""
    columns = [[row[i] for row in table.rows] for i in range(len(table.columns))]
    return [any(cells) and all(map(_is_figure, cells)) for cells in columns]


def _is_figure(cell: Cell) -> bool:
    if isinstance(cell, Number):
        return True
    return isinstance(cell, str) and (not cell or cell.isdecimal())


def swatch(name: str, styles: Styles) -> Style | None:
    """The style of what a cell or heading names: an edit, or a figure of one; None of others.

    >>> found = swatch("R, inlp-8@resid_post.4", Styles())
    >>> found.variable, found.glyph, swatch("inlp is slow", Styles())
    ('var(--series-1)', '■', None)
    """
    last = name.rpartition(", ")[2].removeprefix("→ ")
    return styles.of(last) if last in UNEDITED_NAMES or EDIT.fullmatch(last) else None


def legend(figure: Figure, styles: Styles) -> list[Entry]:
    """One line for each series that is drawn, in the order of drawing."""
    if all(panel.downwards and _is_labelled(panel.series) for panel in figure.panels):
        return []
    drawn = styles.figure(figure.panels)
    entries: dict[str, Entry] = {}
    for series in (s for panel in figure.panels for s in panel.series):
        style = drawn[series.name]
        if series.tentative:
            entries[SCREENED] = Entry(SCREENED, Style(GREY, "o").variable, HOLLOW["o"])
        glyph = LINES.get(series.kind, style.glyph)
        entries.setdefault(series.name, Entry(series.name, style.variable, glyph))
    last = [entries.pop(SCREENED)] if SCREENED in entries else []
    return [*entries.values(), *last]


def _is_labelled(series: Sequence[Series]) -> bool:
    """Whether each series stands beside its own name already."""
    return all(set(s.x) == {s.name} for s in series)


def drawings(figure: Figure, key: str, styles: Styles) -> list[Markup]:
    """The panels of a figure as inline SVG."""
    drawn = styles.figure(figure.panels)
    return [
        # Safe: an XML library wrote it, with every text escaped.
        Markup(inline_svg(panel, f"{key}-{i}", drawn))
        for i, panel in enumerate(figure.panels)
    ]


def in_numbers(figure: Figure) -> Table:
    """What a figure shows as a table, for whoever cannot see it or wants the digits."""
    lines: list[tuple[Cell, ...]] = []
    for panel in figure.panels:
        for s in panel.series:
            for i, y in enumerate(s.y):
                at = str(s.x[i]) if i < len(s.x) else s.tips[i] if i < len(s.tips) else ""
                lo, hi = (s.lo[i], s.hi[i]) if s.lo else (None, None)
                place = "" if at == s.name else at
                name = f"{s.name}, {SCREENED}" if s.tentative else s.name
                lines.append((panel.title, name, place, Number(y, lo, hi, digits=4)))
    columns = ("panel", "series", "at", "value")
    return Table(figure.name, f"{figure.title}, in numbers", columns, tuple(lines))
