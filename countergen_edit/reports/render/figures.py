"""Figures: the styles of erasers, panels drawn by matplotlib, files, and inline SVG of pages."""

from __future__ import annotations

import io
import math
import re
import xml.etree.ElementTree as ET  # reads only what matplotlib wrote
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

from countergen_edit.core.writing import whole
from countergen_edit.metrics.results import NO_EDIT
from countergen_edit.reports.panels import PER_LINE, Panel, Series, fitting

BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
PINK, ORANGE, SKY = "#CC79A7", "#E69F00", "#56B4E9"
INDIGO, OLIVE, BROWN = "#332288", "#999933", "#7F4F24"
DARK, LIGHT, GREY = "#333333", "#A6A6A6", "#8C8C8C"
COLOURS = (BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY, INDIGO, OLIVE, BROWN)
"""Okabe and Ito's palette, then Tol's, which colour-blind readers tell apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
GLYPHS = dict(zip(MARKERS, "●■▲◆▼✚✖★◀▶⬟⬢", strict=True)) | {"x": "✕", "": "─"}
HOLLOW = dict(zip(MARKERS, "○□△◇▽✚✖☆◁▷⬠⬡", strict=True)) | {"x": "✕", "": "─"}
"""Markers in a line of text."""
VARIABLES = {c.lower(): f"var(--series-{i})" for i, c in enumerate(COLOURS)} | {
    DARK: "var(--unedited)",
    LIGHT.lower(): "var(--random)",
    GREY.lower(): "var(--baseline)",
}
"""The page's CSS variable of each colour, which has a light and a dark value."""
COMBINED = "combination"  # as in `edits.record`, which imports torch
CHOSEN, FRONT = "chosen", "front"
AFTER_ERASER = r"(?=-\d|@|,| \(|$)"
"""Follows an eraser's name in the name of an edit."""

BAR, LANES = 0.8, 0.7
"""Shares of a category's room for its bars, and for series with a line each."""
WIDTH = 3.6
"""Inches of one panel."""
ACROSS = 40
"""Letters of horizontal categories; more are slanted."""
DATELESS = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""Metadata without a date, so that the same rows give the same file."""

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
INK, GRID = "#010101", "#b0b0b0"
THEMED = VARIABLES | {INK: "var(--ink)", GRID: "var(--grid)"}
INKED: dict[Any, str] = dict.fromkeys(
    (
        "text.color",
        "axes.labelcolor",
        "axes.edgecolor",
        "axes.titlecolor",
        "xtick.color",
        "ytick.color",
    ),
    INK,
)


@dataclass(frozen=True)
class Style:
    """The look of a series."""

    colour: str
    marker: str
    hollow: bool = False
    """Whether others are compared with it."""

    @property
    def variable(self) -> str:
        """The page's CSS variable of its colour."""
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
"""By the eraser's name, or that of the unedited model."""
CUSTOM = [Style(colour, marker) for marker, colour in product(MARKERS, (INDIGO, OLIVE))]
"""For custom erasers."""


def style_of(name: str, custom: Sequence[str] = ()) -> Style | None:
    """The style of an edit's or eraser's name; None for other names.

    >>> style_of("R, inlp-8@resid_post.4") == style_of("→ inlp-2") == FIXED["inlp"]
    True
    >>> style_of("leace-1@mlp_out.2 + rlace-1@mlp_out.3") == FIXED["combination"]
    True
    >>> style_of("inlp is slow"), style_of("laces", ["lace"])
    (None, None)
    """

    def eraser(text: str) -> str | None:
        known = (*FIXED, *custom)
        found = [each for each in known if re.match(re.escape(each) + AFTER_ERASER, text)]
        return max(found, key=len, default=None)

    for part in (name, name.rpartition(", ")[2]):
        first, *others = map(eraser, part.removeprefix("→ ").split(" + "))
        if first:
            mixed = any(other not in (None, first) for other in others)
            return FIXED[COMBINED] if mixed else FIXED.get(first) or _custom(first, custom)
    return None


def _custom(name: str, custom: Sequence[str]) -> Style:
    """The styles for custom erasers in turn, by name."""
    return CUSTOM[sorted({*custom} - {*FIXED}).index(name) % len(CUSTOM)]


class Styles:
    """The styles of a report.

    Parameters
    ----------
    figures : the panels of each figure; edits of one eraser that share a figure have a marker each
    custom : custom erasers of the report
    """

    def __init__(self, figures: Sequence[Sequence[Panel]] = (), custom: Sequence[str] = ()) -> None:
        self._custom = custom
        self._known: dict[str, Style] = {}
        together = [{s.name for p in panels for s in p.series} for panels in figures]
        for name in dict.fromkeys(s.name for f in figures for p in f for s in p.series):
            style = style_of(name, custom)
            if style is not None and not style.hollow:
                beside = set[str]().union(*(names for names in together if name in names))
                taken = [known for n, known in self._known.items() if n in beside]
                variants = (replace(style, marker=marker) for marker in MARKERS)
                others = [v for v in variants if v not in FIXED.values()]
                self._known[name] = next((s for s in (style, *others) if s not in taken), style)

    def of(self, name: str) -> Style | None:
        """The style of an edit's or eraser's name, a figure of one, or the unedited model."""
        last = name.rpartition(", ")[2].removeprefix("→ ")
        return self._known.get(name) or self._known.get(last) or style_of(name, self._custom)

    def figure(self, panels: Iterable[Panel]) -> dict[str, Style]:
        """A style for each name of a figure; names of no edit take what is left."""
        series = sorted((s for p in panels for s in p.series), key=lambda s: s.baseline)
        styles = {s.name: style for s in series if (style := self.of(s.name)) is not None}
        markers = [m for m in MARKERS if m not in {style.marker for style in styles.values()}]
        colours = [c for c in COLOURS if c not in {style.colour for style in styles.values()}]
        hues = cycle(colours or COLOURS)
        for s in series:
            if s.name not in styles:
                colour = GREY if s.baseline else next(hues)
                looks = [Style(colour, marker, s.baseline) for marker in markers or MARKERS]
                own = next((look for look in looks if look not in FIXED.values()), looks[0])
                markers = [marker for marker in markers if marker != own.marker]
                styles[s.name] = own
        return styles


def draw_panel(ax: Any, panel: Panel, styles: Mapping[str, Style]) -> list[Any]:
    """Draw a panel on matplotlib axes; one artist for each series."""
    artists = [_draw(ax, panel, k, s, styles[s.name]) for k, s in enumerate(panel.series)]
    _axes(ax, panel)
    return artists


def _draw(ax: Any, panel: Panel, k: int, s: Series, style: Style) -> Any:
    places = {name: i for i, name in enumerate(panel.categories)} if panel.downwards else {}
    colour, gid = style.colour, f"marks-{k}"
    x: list[Any] = [places[str(value)] for value in s.x] if panel.downwards else list(s.x)
    if panel.joined and s.kind == "dots" and not s.baseline:
        lanes = panel.dots
        step = LANES / max(len(lanes), PER_LINE)
        x = [at + (lanes.index(s) - (len(lanes) - 1) / 2) * step for at in x]
        _join(ax, panel, s, x, colour)
    across = (s.y, x) if panel.downwards else (x, s.y)
    if s.kind == "level":
        line = ax.axvline if panel.downwards else ax.axhline
        return line(s.y[0], color=colour, linestyle="--", linewidth=1)
    if s.kind == "bars":
        beside = [o for o in panel.series if o.kind == "bars" and (o is s or {*o.x} & {*s.x})]
        width = BAR / len(beside)
        shift = (beside.index(s) - (len(beside) - 1) / 2) * width
        bar = ax.barh if panel.downwards else ax.bar
        return bar([float(at) + shift for at in x], s.y, width, color=colour)
    if s.kind == "spread":
        height = places[str(s.x[0])] if panel.downwards else (k + 1) / (len(panel.series) + 1)
        return _spread(ax, s, height, style, gid)
    if s.kind == "ticks":
        look = {"markersize": 13, "markeredgewidth": 2, "linestyle": "none"}
        marker = "|" if panel.downwards else "_"
        return ax.plot(*across, color=colour, marker=marker, gid=gid, **look)[0]
    dots = s.kind == "dots"
    [artist] = ax.plot(
        *across,
        color=colour,
        marker=style.marker,
        markersize=9 if s.name == CHOSEN else 4.5 if dots else 4,
        markerfacecolor="none" if style.hollow else colour,
        linestyle="none" if dots else "-",
        drawstyle="steps-post" if s.kind == "steps" else "default",
        clip_on=panel.limits is None and panel.covers is None,  # marks at the ends stay whole
        gid=gid,
    )
    if s.lo and dots:
        below = [max(0.0, v - a) for v, a in zip(s.y, s.lo, strict=True)]
        above = [max(0.0, b - v) for v, b in zip(s.y, s.hi, strict=True)]
        ends = {"xerr" if panel.downwards else "yerr": [below, above]}
        ax.errorbar(*across, **ends, fmt="none", ecolor=colour, elinewidth=1.2)
    elif s.lo:
        ax.fill_between(s.x, s.lo, s.hi, color=colour, alpha=0.15, linewidth=0)
    return artist


def _join(ax: Any, panel: Panel, s: Series, places: Sequence[Any], colour: str) -> None:
    """Draw lines from the dots of the baseline to those of a series."""
    start = next((o for o in panel.series if o.baseline and o.kind == "dots"), None)
    before = {} if start is None else dict(zip(start.x, start.y, strict=True))
    for at, x, y in zip(places, s.x, s.y, strict=True):
        if x in before:
            look = {"linewidth": 2.5, "alpha": 0.3, "solid_capstyle": "butt"}
            ax.plot([before[x], y], [at, at], color=colour, **look)


def _spread(ax: Any, s: Series, height: float, style: Style, gid: str) -> Any:
    """Draw every value on one line over a box of quartiles."""
    from matplotlib.cbook import boxplot_stats

    [box] = boxplot_stats(list(s.y))
    if s.box:
        low, median, high = s.box
        reach = 1.5 * (high - low)
        inside = [y for y in s.y if low - reach <= y <= high + reach]
        box |= {"q1": low, "med": median, "q3": high}
        box |= {"whislo": min([low, *inside]), "whishi": max([high, *inside])}
    look = {"color": style.colour}
    parts = ("medianprops", "boxprops", "whiskerprops", "capprops")
    ax.bxp(
        [box],
        positions=[height],
        orientation="horizontal",
        widths=0.18,
        showfliers=False,
        manage_ticks=False,
        **dict.fromkeys(parts, look),
    )
    face = "none" if style.hollow else style.colour
    line = [height] * len(s.y)
    dots = {"markerfacecolor": face, "markersize": 3, "linestyle": "none", "alpha": 0.5}
    return ax.plot(s.y, line, marker=style.marker, gid=gid, **look, **dots)[0]


def _axes(ax: Any, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    sideways = panel.downwards or panel.is_spread
    ax.set_title("\n".join(panel.heading), loc="left", fontsize="medium")
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    ax.spines[["top", "right"]].set_visible(False)
    if sideways:
        ax.grid(axis="x", linewidth=0.5, alpha=0.4)
        ax.locator_params(axis="x", nbins=3 if panel.downwards else 5)
    if not panel.downwards:
        ax.grid(axis="y", linewidth=0.5, alpha=0.4)
    if panel.downwards:
        ax.set_yticks(range(len(panel.categories)), [*map(fitting, panel.categories)])
        ax.set_ylim(len(panel.categories) - 0.5, -0.5)
    elif panel.is_spread:
        ax.set_yticks([])
        ax.set_ylim(1, 0)
    else:
        names = [str(x) for s in panel.series for x in s.x if isinstance(x, str)]
        if sum(map(len, names)) + 3 * len(names) > ACROSS:
            ax.tick_params(axis="x", labelrotation=20)
            for label in ax.get_xticklabels():
                label.set_horizontalalignment("right")
        integers = [isinstance(x, int) for s in panel.series for x in s.x]
        if integers and all(integers):
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    for axis in (ax.xaxis, ax.yaxis):
        if hasattr(formatter := axis.get_major_formatter(), "set_useOffset"):
            formatter.set_useOffset(False)
    if panel.wide:
        ax.set_xscale("symlog", linthresh=1)
        ax.xaxis.set_major_formatter("{x:g}")
    if panel.limits is not None:
        (ax.set_xlim if sideways else ax.set_ylim)(panel.limits)
    if panel.covers is not None and not sideways:
        reach = [*panel.covers, *panel.across]
        ax.set_xlim(min(reach), max(reach))


def _settings(size: float) -> dict[Any, Any]:
    return {
        "svg.hashsalt": "countergen-edit",  # the same rows give the same file
        "svg.fonttype": "none",
        "font.size": size,
        "text.parse_math": False,  # a generated text may contain dollar signs
    }


def write(
    panels: Sequence[Panel], title: str, path: Path, endings: Sequence[str], styles: Styles
) -> list[Path]:
    """Write a figure as `path` with each of the endings; the paths.

    Raises
    ------
    UserError
        A file cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = max(panel.height for panel in panels)
    written, shown = [], dict[str, Any]()
    with rc_context(_settings(8)):
        figure = Figure(figsize=(WIDTH * columns, height * rows + 0.5), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        for ax, panel in zip(axes.flat, panels, strict=False):
            artists = draw_panel(ax, panel, styles.figure(panels))
            for s, artist in zip(panel.series, artists, strict=True):
                if not (panel.downwards and {*s.x} == {s.name}):  # it stands beside its name
                    shown.setdefault(s.name, artist)
        for ax in axes.flat[len(panels) :]:
            ax.set_visible(False)
        figure.suptitle(title)
        if shown:
            figure.legend(
                handles=list(shown.values()),
                labels=[*map(fitting, shown)],
                loc="outside lower center",
                ncols=4,
                frameon=False,
            )
        for ending in endings:
            written.append(path.with_name(path.name + ending))
            form, dated = ending.removeprefix("."), DATELESS.get(ending, {})
            with whole(written[-1]) as temporary:
                figure.savefig(temporary, format=form, dpi=150, metadata=dated)
    return written


def inline_svg(panel: Panel, key: str, styles: Mapping[str, Style]) -> str:
    """A panel as an `<svg>` element in the colours of the page, with ids that begin with `key`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_settings(9) | INKED):
        figure = Figure(figsize=(WIDTH, panel.height), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        axes.patch.set_alpha(0)
        draw_panel(axes, panel, styles)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    root = ET.fromstring(text)
    for child in list(root):
        is_style = child.tag == f"{SVG}defs" and child.find(f"{SVG}style") is not None
        if child.tag == f"{SVG}metadata" or is_style:
            root.remove(child)
    _tips(root, panel)
    used = {*re.findall(r'url\(#([^)]+)\)|xlink:href="#([^"]+)"', text)}
    used_ids = {name for pair in used for name in pair}
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        name = element.attrib.pop("id", None)
        if name in used_ids:
            element.set("id", f"{key}-{name}")
        if (target := element.attrib.pop(HREF, None)) is not None:
            element.set("href", f"#{key}-{target[1:]}")
        if (path := element.get("clip-path")) is not None:
            element.set("clip-path", path.replace("#", f"#{key}-"))
        if (style := element.get("style")) is not None:
            style = re.sub(r"#[0-9a-f]{6}", lambda m: THEMED.get(m[0], m[0]), style)
            style = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", style)
            element.set("style", re.sub(r"font-family: [^;]*;? ?", "", style))
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    title = ET.Element("title", id=f"{key}-title")
    title.text = described(panel)
    root.insert(0, title)
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title")
    return ET.tostring(root, encoding="unicode", short_empty_elements=True)


def described(panel: Panel) -> str:
    """A panel in words, for screen readers.

    >>> described(Panel("jobs", "layer", "mean |R|", (Series("leace", (0,), (0.5,)),)))
    'jobs: mean |R| by layer; leace'
    """
    against = f" by {panel.x_label}" if panel.x_label else ""
    names = ", ".join(dict.fromkeys(s.name for s in panel.series))
    label = panel.x_label if panel.downwards else f"{panel.y_label}{against}"
    return f"{panel.title}: {label}; {names}"


def _tips(root: ET.Element, panel: Panel) -> None:
    """Give each mark the text of its point."""
    for k, s in enumerate(panel.series):
        group = root.find(f".//{SVG}g[@id='marks-{k}']")
        if group is None:
            continue
        marks = group.findall(f".//{SVG}use")
        tips = s.tips or tuple(f"{s.name}, {x}: {y:.3f}" for x, y in zip(s.x, s.y, strict=True))
        if len(marks) == len(tips):  # a mark outside the axes is not drawn
            for mark, tip in zip(marks, tips, strict=True):
                mark.set("data-tip", tip)
