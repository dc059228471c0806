"""Figures by matplotlib, in the style of each eraser, as files of several formats."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit.core.reading import shipped_yaml
from countergen_edit.core.writing import whole
from countergen_edit.reports.blocks import Figure
from countergen_edit.reports.panels import PER_LINE, Ends, Panel, Series, fitting

LOOKS = shipped_yaml(Path(__file__).with_name("styles.yaml"))
COLOURS = tuple(LOOKS["colours"].values())
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
_COMBINED = "combination"  # as in `edits.record`, which imports torch
CHOSEN = "chosen"
LANES = 0.7
NOT_SIGNIFICANT = "#e4e6e9"
WIDTH, PANEL_COLUMNS = 3.6, 3
"""Inches of one panel, and most panels of a row."""
ROOM = 0.05
DATELESS = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""Metadata without a date, so that the same rows give the same file."""
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "countergen-edit",
    "svg.fonttype": "none",
    "font.size": 8,
    "axes.formatter.useoffset": False,
    "text.parse_math": False,  # a generated text may contain dollar signs
}


@dataclass(frozen=True)
class Style:
    """The look of a series."""

    colour: str
    marker: str
    hollow: bool = False
    """Whether others are compared with it."""


FIXED = {
    name: Style((LOOKS["colours"] | LOOKS["greys"])[colour], marker, colour in LOOKS["greys"])
    for name, (colour, marker) in LOOKS["fixed"].items()
}
RESERVED = {*FIXED.values()}
ERASER = re.compile(f"(?:{'|'.join(sorted(FIXED, key=len, reverse=True))})(?=-\\d|@|,| \\(|$)")


def styles(panels: Iterable[Panel]) -> dict[str, Style]:
    """A style for each name of a figure; edits of one eraser share its colour."""
    series = {s.name: s for panel in panels for s in panel.series}
    fixed = {name: FIXED[eraser] for name in series if (eraser := _eraser_of(name))}
    used, grey = {style.colour for style in fixed.values()}, LOOKS["greys"]["grey"]
    hues = cycle([colour for colour in COLOURS if colour not in used] or COLOURS)
    looks: dict[str, Style] = {}
    for name, s in series.items():
        first = fixed.get(name) or Style(grey if s.baseline else next(hues), "o", s.baseline)
        options = [first, *(replace(first, marker=marker) for marker in MARKERS)]
        options = [look for look in options if look is fixed.get(name) or look not in RESERVED]
        looks[name] = next((look for look in options if look not in looks.values()), options[0])
    return looks


def _eraser_of(name: str) -> str:
    """The fixed name that an edit's begins with; empty for other names.

    >>> _eraser_of("inlp-8@resid_post.4"), _eraser_of("leace-1@mlp_out.2 + rlace-1@mlp_out.3")
    ('inlp', 'combination')
    """
    first, *following = map(ERASER.match, name.split(" + "))
    mixed = any(other and first and other[0] != first[0] for other in following)
    return _COMBINED if mixed else first[0] if first else ""


def draw(figure: Figure, title: str = "", columns: int = PANEL_COLUMNS) -> Any:
    """A figure as one of matplotlib, which panels fill row by row above one legend.

    Panels of one measure share its axis, from 0 or the neutral value to just above all values.
    """
    from matplotlib.figure import Figure as Drawing

    panels = figure.panels
    looks = styles(panel for panel in panels if not panel.is_heat_map)
    columns = min(columns, len(panels))
    width = WIDTH * columns
    if len(panels) % columns == 1 and len(panels) % (columns - 1) == 0:
        columns -= 1  # no panel stands alone
    rows = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    heights = [max(panel.height for panel in row) for row in rows]
    drawing: Any = Drawing(figsize=(width, sum(heights) + 0.5), layout="constrained")
    axes = drawing.subplots(len(rows), columns, squeeze=False, height_ratios=heights)
    artists: dict[str, Any] = {}
    for ax, panel in zip(axes.flat, panels, strict=False):
        ax.set_title("\n".join(panel.heading), loc="left", fontsize="medium")
        ax.set(xlabel=panel.x_label)
        if panel.is_heat_map:
            image = _heat_map(ax, panel)
            continue
        for k, s in enumerate(panel.series):
            artist = _draw(ax, panel, k, s, looks[s.name])
            if s.kind != "spread" and not (panel.downwards and {*s.x} == {s.name}):
                artists.setdefault(s.name, artist)  # others have their names on the axis
        _axes(ax, panel, _ends([p for p in panels if p.measure == panel.measure]))
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    if any(panel.is_heat_map for panel in panels):
        bar = drawing.colorbar(image, ax=axes, shrink=0.8, aspect=30, label=panels[0].measure)
        bar.outline.set_visible(False)
    drawing.suptitle(title)
    if artists:
        look = {"loc": "outside lower center", "ncols": columns + 1, "frameon": False}
        drawing.legend([*artists.values()], [*map(fitting, artists)], **look)
    return drawing


def _draw(ax: Any, panel: Panel, k: int, s: Series, style: Style) -> Any:
    colour = style.colour
    face = "none" if style.hollow else colour
    if s.kind == "level":
        return ax.axhline(s.y[0], color=colour, linestyle="--", linewidth=1)
    if s.kind == "spread":  # every value on one line over a box of quartiles
        height = (k + 1) / (len(panel.series) + 1)
        lines = ("medianprops", "boxprops", "whiskerprops", "capprops")
        place: dict[str, Any] = {"positions": [height], "orientation": "horizontal"}
        place["widths"] = LANES / (len(panel.series) + 1)
        place |= {key: {"color": colour} for key in lines}
        ax.boxplot([s.y], showfliers=False, manage_ticks=False, **place)
        dots = {"markersize": 3, "linestyle": "none", "alpha": 0.5, "markerfacecolor": face}
        y = [height] * len(s.y)
        return ax.plot(s.y, y, marker=style.marker, color=colour, clip_on=False, **dots)[0]
    x: list[Any] = [panel.categories.index(str(at)) for at in s.x] if panel.downwards else [*s.x]
    if panel.joined and s in (lanes := panel.dots):
        step = LANES / max(len(lanes), PER_LINE)
        x = [at + (lanes.index(s) - (len(lanes) - 1) / 2) * step for at in x]
        start = next((o for o in panel.series if o.baseline and o.kind == "dots"), s)
        before = dict(zip(start.x, start.y, strict=True))
        joined = [before.get(name, y) for name, y in zip(s.x, s.y, strict=True)]
        ax.hlines(x, joined, s.y, color=colour, linewidth=2.5, alpha=0.3)
    look: dict[str, Any] = {"color": colour, "marker": style.marker, "markerfacecolor": face}
    look |= {"markersize": 9 if s.name == CHOSEN else 4.5}
    if s.kind == "ticks":
        look |= {"marker": "|", "markersize": 13, "markeredgewidth": 2}
    look["linestyle"] = "none" if s.kind in ("dots", "ticks") else "-"
    look["drawstyle"] = "steps-post" if s.kind == "steps" else "default"
    across = (s.y, x) if panel.downwards else (x, s.y)
    [artist] = ax.plot(*across, clip_on=False, **look)  # marks at the ends stay whole
    if s.lo and s.kind == "dots":
        reach = np.maximum([np.subtract(s.y, s.lo), np.subtract(s.hi, s.y)], 0)
        error = {"xerr" if panel.downwards else "yerr": reach}
        ax.errorbar(*across, **error, fmt="none", ecolor=colour, elinewidth=1.2)
    elif s.lo:
        ax.fill_between(s.x, s.lo, s.hi, color=colour, alpha=0.15, linewidth=0)
    return artist


def _heat_map(ax: Any, panel: Panel) -> Any:
    """Draw a row of cells for each series; grey where the interval includes 0."""
    from matplotlib import colormaps

    colours = colormaps["PuOr_r"].with_extremes(bad=NOT_SIGNIFICANT)
    values, lo, hi = (
        np.array([getattr(s, end) for s in panel.series]) for end in ("y", "lo", "hi")
    )
    shown = np.ma.masked_where((lo <= 0) & (hi >= 0), values) if lo.size else values
    image = ax.imshow(shown, cmap=colours, vmin=-1, vmax=1, aspect="auto", interpolation="none")
    ax.spines[:].set_visible(False)
    ax.set_yticks(range(len(values)), [fitting(s.name, 24) for s in panel.series])
    ax.xaxis.get_major_locator().set_params(integer=True, nbins=10)
    ax.tick_params(length=0)
    return image


def _axes(ax: Any, panel: Panel, limits: Ends) -> None:
    ax.set(ylabel=panel.y_label)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x" if panel.sideways else "y", linewidth=0.5, alpha=0.4)
    (ax.set_xlim if panel.sideways else ax.set_ylim)(limits)
    if panel.downwards:
        ax.locator_params(axis="x", nbins=3)
        ax.set_yticks(range(len(panel.categories)), [*map(fitting, panel.categories)])
        ax.set_ylim(len(panel.categories) - 0.5, -0.5)
    elif panel.sideways:
        names = [fitting(s.name, 24) for s in panel.series]
        ax.set_yticks([(k + 1) / (len(names) + 1) for k in range(len(names))], names)
        ax.set_ylim(1, 0)
    else:
        across = [x for s in panel.series for x in s.x]
        if across and all(isinstance(x, int) for x in across):
            ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        if panel.covers is not None:
            reach = [*panel.covers, *across]
            ax.set_xlim(min(reach), max(reach))
    if panel.wide:
        ax.set_xscale("symlog", linthresh=1)
        ax.xaxis.set_major_formatter("{x:g}")


def _ends(panels: Sequence[Panel]) -> Ends:
    """The ends of the axis of the values that panels share.

    >>> def panel(*y, limits=None): return Panel("", "", "", (Series("a", (), y),), limits=limits)
    >>> _ends([panel(0.2), panel(0.8)]), _ends([panel(0.2, 1.0, limits=(0.0, 1.0))])
    ((0.0, 0.84), (0.0, 1.0))
    >>> _ends([panel(-0.5, 0.5)]), _ends([panel(1.02, limits=(1.0, 1.01))])
    ((-0.55, 0.55), (1.0, 1.021))
    """
    values = [v for p in panels for s in p.series for v in (*s.y, *s.lo, *s.hi) if math.isfinite(v)]
    limits = [p.limits for p in panels if p.limits]
    start = min((low for low, _ in limits), default=0.0)
    end = max((high for _, high in limits), default=start)
    low, high = min([start, *values]), max([end, *values])
    room = ROOM * (high - low) or 1.0
    is_limit = bool(limits) and high == end
    return low if low == start else low - room, high if is_limit else round(high + room, 12)


def write(figure: Figure, path: Path, endings: Sequence[str]) -> list[Path]:
    """Write a figure as `path` with each of the endings; `UserError` if a file cannot be."""
    from matplotlib import rc_context

    written = [path.with_name(path.name + ending) for ending in endings]
    with rc_context(SETTINGS):
        drawing = draw(figure, figure.title)
        for place, ending in zip(written, endings, strict=True):
            look = {"format": ending[1:], "metadata": DATELESS[ending]}
            with whole(place) as temporary:
                drawing.savefig(temporary, dpi=150, **look)
    return written


def as_svg(figure: Figure, columns: int = PANEL_COLUMNS) -> bytes:
    """A figure without its title as an SVG file."""
    from matplotlib import rc_context

    file = BytesIO()
    with rc_context(SETTINGS):
        look = {"format": "svg", "metadata": DATELESS[".svg"], "transparent": True}
        draw(figure, columns=columns).savefig(file, **look)
    return file.getvalue()
