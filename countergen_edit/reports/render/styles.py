"""Colour and marker of every eraser, fixed by its name on all pages, in all tables and figures.

Comes in: names of series, of edits, of figures of edits. Goes out: their styles. A name that is no
edit's takes what is left within its figure.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle, product

from countergen_edit.metrics.results import NO_EDIT
from countergen_edit.reports.panels import Panel

BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
PINK, ORANGE, SKY = "#CC79A7", "#E69F00", "#56B4E9"
INDIGO, OLIVE, BROWN = "#332288", "#999933", "#7F4F24"
DARK, LIGHT, GREY = "#333333", "#A6A6A6", "#8C8C8C"
COLOURS = (BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY, INDIGO, OLIVE, BROWN)
"""Okabe and Ito's palette, then Tol's, which colour-blind readers tell apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
"""Shapes tell series apart without any colour."""
GLYPHS = dict(zip(MARKERS, "●■▲◆▼✚✖★◀▶⬟⬢", strict=True)) | {"x": "✕", "": "─"}
"""How a page shows a marker in a line of text."""
HOLLOW = dict(zip(MARKERS, "○□△◇▽✚✖☆◁▷⬠⬡", strict=True)) | {"x": "✕", "": "─"}
VARIABLES = {c.lower(): f"var(--series-{i})" for i, c in enumerate(COLOURS)} | {
    DARK: "var(--unedited)",
    LIGHT.lower(): "var(--random)",
    GREY.lower(): "var(--baseline)",
}
"""Colours as drawn → as the page names them, whose style sheet has one for light and for dark."""
COMBINED = "combination"  # as in `edits.record`, which torch comes with
CHOSEN, FRONT = "chosen", "front"
"""Series of a search that are no edit's."""
OF_EDIT = r"(?=-\d|@|,| \(|$)"
"""What follows an eraser's name in the name of an edit."""


@dataclass(frozen=True)
class Style:
    """How a series is drawn, and what marks its name in tables."""

    colour: str
    marker: str
    hollow: bool = False
    """Whether others are held against it."""

    @property
    def variable(self) -> str:
        """Its colour as the page names it."""
        return VARIABLES[self.colour.lower()]

    @property
    def glyph(self) -> str:
        """Its marker in a line of text."""
        return (HOLLOW if self.hollow else GLYPHS)[self.marker]


FIXED = {
    "preserving": Style(BLUE, "D"),
    "inlp": Style(VERMILLION, "s"),
    "leace": Style(GREEN, "^"),
    "rlace": Style(PINK, "v"),
    "mean_difference": Style(ORANGE, "P"),
    "splince": Style(SKY, ">"),
    "sal": Style(ORANGE, "<"),
    "sentence_debias": Style(PINK, "p"),
    "gated": Style(SKY, "*"),
    "refined": Style(VERMILLION, "h"),
    COMBINED: Style(BLUE, "o"),
    "prompting": Style(BROWN, "*"),
    "template": Style(BROWN, "s"),
    "steering": Style(BROWN, ">"),
    "random": Style(LIGHT, "x", hollow=True),
    "random_map": Style(LIGHT, "s", hollow=True),
    CHOSEN: Style(DARK, "*", hollow=True),
    FRONT: Style(GREY, "", hollow=True),
    **dict.fromkeys((NO_EDIT, "original", "before"), Style(DARK, "o", hollow=True)),
}
"""By the eraser's name in a run, or by what the unedited model is called."""
OWN = [Style(colour, marker) for marker, colour in product(MARKERS, (INDIGO, OLIVE))]
"""Left for erasers of users; no built-in one has their colours."""


def style_of(name: str, own: Sequence[str] = ()) -> Style | None:
    """The style of an edit's or eraser's name, a figure of one, or the unedited model.

    Args:
        name: of a series, a cell, a column.
        own: erasers of the report that may be a user's own.

    Returns:
        None where the name is of none of these.

    >>> style_of("R, inlp-8@resid_post.4") == style_of("→ inlp-2") == FIXED["inlp"]
    True
    >>> style_of("leace-1@mlp_out.2 + rlace-1@mlp_out.3") == FIXED["combination"]
    True
    >>> style_of("inlp is slow"), style_of("laces", ["lace"])
    (None, None)
    """
    for part in (name, name.rpartition(", ")[2]):
        first, *others = part.removeprefix("→ ").split(" + ")
        if found := _eraser(first, own):
            mixed = any(_eraser(other, own) not in (None, found) for other in others)
            return FIXED[COMBINED] if mixed else FIXED.get(found) or _own(found, own)
    return None


class Styles:
    """The styles of a report.

    Args:
        figures: the panels of each figure. Several edits of one eraser that share a figure have a
            marker each, the same in every figure and table; controls are alike.
        own: erasers of the report that may be a user's own.
    """

    def __init__(self, figures: Sequence[Sequence[Panel]] = (), own: Sequence[str] = ()) -> None:
        self._own = own
        self._known: dict[str, Style] = {}
        together = [{s.name for p in panels for s in p.series} for panels in figures]
        for name in dict.fromkeys(s.name for f in figures for p in f for s in p.series):
            style = style_of(name, own)
            if style is not None and not style.hollow:
                beside = set[str]().union(*(names for names in together if name in names))
                taken = [known for n, known in self._known.items() if n in beside]
                self._known[name] = next((s for s in _variants(style) if s not in taken), style)

    def of(self, name: str) -> Style | None:
        """The style of an edit's or eraser's name, a figure of one, or the unedited model."""
        last = name.rpartition(", ")[2].removeprefix("→ ")
        known = self._known.get(name) or self._known.get(last)
        return known or style_of(name, self._own)

    def figure(self, panels: Iterable[Panel]) -> dict[str, Style]:
        """A style for each name of a figure; one that is no edit's takes what is left."""
        series = sorted((s for p in panels for s in p.series), key=lambda s: s.baseline)
        found = {s.name: self.of(s.name) for s in series}
        drawn = {name: style for name, style in found.items() if style is not None}
        markers = [m for m in MARKERS if m not in {style.marker for style in drawn.values()}]
        colours = [c for c in COLOURS if c not in {style.colour for style in drawn.values()}]
        hues = cycle(colours or COLOURS)
        for s in series:
            if s.name not in drawn:
                colour = GREY if s.baseline else next(hues)
                looks = [Style(colour, marker, s.baseline) for marker in markers or MARKERS]
                own = next((look for look in looks if look not in FIXED.values()), looks[0])
                markers = [marker for marker in markers if marker != own.marker]
                drawn[s.name] = own
        return drawn


def _variants(style: Style) -> Iterator[Style]:
    """A style, then those in its colour that nothing else has."""
    others = (replace(style, marker=marker) for marker in MARKERS)
    return chain([style], (o for o in others if o not in FIXED.values()))


def _eraser(name: str, own: Sequence[str]) -> str | None:
    found = [each for each in (*FIXED, *own) if re.match(re.escape(each) + OF_EDIT, name)]
    return max(found, key=len, default=None)


def _own(name: str, own: Sequence[str]) -> Style:
    """Follows from the name; of two names that would share a style the later takes the next."""
    taken: dict[str, Style] = {}
    for each in sorted({*own} - {*FIXED}):
        first = zlib.crc32(each.encode()) % len(OWN)
        free = [style for style in OWN[first:] + OWN[:first] if style not in taken.values()]
        taken[each] = (free or OWN)[0]
    return taken[name]
