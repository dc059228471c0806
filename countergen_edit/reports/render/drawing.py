"""What a figure shows, before it is drawn: panels of series, read off rows.

Comes in: panels. Goes out: matplotlib figures, and files of them (SVG, PDF, PNG).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.core.writing import whole
from countergen_edit.reports.panels import PER_LINE, SCREENED, Panel, Series, fitting
from countergen_edit.reports.render.styles import CHOSEN, GREY, Style, Styles

BAR = 0.8
"""Share of a category's room that its bars take together."""
LANES = 0.7
"""Share of a category's room that series take together which have room of their own."""
ASIDE = 0.08
"""Layers between series that were screened at the same one."""
UP = [(0.0, -1.0), (0.0, 0.0), (-0.4, -0.4), (0.0, 0.0), (0.4, -0.4)]
DOWN = [(x, -y) for x, y in UP]
"""Arrows where what was screened goes on beyond the axis."""
WIDTH = 3.6
"""Inches of one panel."""
ACROSS = 40
"""Letters that the categories below a panel take side by side; more are slanted."""
FULL_SHADE = 0.25
"""Value of a token at which its colour is at its strongest."""
DATELESS = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""Metadata by ending; without a date the same rows give the same file."""


def draw_panel(ax: Any, panel: Panel, styled_as: Mapping[str, Style]) -> list[Any]:
    """Draw a panel on matplotlib axes; one artist for each of its series, for a legend."""
    artists = []
    place = {name: i for i, name in enumerate(panel.categories)} if panel.downwards else {}
    for k, s in enumerate(panel.series):
        style, shape = styled_as[s.name].colour, styled_as[s.name].marker
        x: list[float | str] = list(s.x)
        if panel.downwards:
            x = [place[str(value)] for value in s.x]
        if panel.joined and s.kind == "dots" and not s.baseline:
            x = [place[str(value)] + _aside(panel, s) for value in s.x]
            _join(ax, panel, s, x, style)
        across = (s.y, x) if panel.downwards else (x, s.y)
        if s.tentative:
            artist = _screened(ax, panel, s, style, shape)
            artist.set_gid(f"marks-{k}")
        elif s.kind == "level":
            line = ax.axvline if panel.downwards else ax.axhline
            artist = line(s.y[0], color=style, linestyle="--", linewidth=1)
        elif s.kind == "ticks":
            shape = "|" if panel.downwards else "_"
            [artist] = ax.plot(
                *across,
                color=style,
                marker=shape,
                markersize=13,
                markeredgewidth=2,
                linestyle="none",
                gid=f"marks-{k}",
            )
        elif s.kind == "bars":
            beside = [o for o in panel.series if o.kind == "bars" and (o is s or {*o.x} & {*s.x})]
            width = BAR / len(beside)
            shift = (beside.index(s) - (len(beside) - 1) / 2) * width
            bar = ax.barh if panel.downwards else ax.bar
            artist = bar([float(at) + shift for at in x], s.y, width, color=style)
        elif s.kind == "spread":
            height = (k + 1) / (len(panel.series) + 1)
            height = place[str(s.x[0])] if panel.downwards else height
            artist = _spread(ax, s, height, styled_as[s.name])
            artist.set_gid(f"marks-{k}")
        else:
            dots = s.kind == "dots"
            [artist] = ax.plot(
                *across,
                color=style,
                marker=shape,
                # Around the dot of the edit that was chosen.
                markersize=9 if s.name == CHOSEN else 4.5 if dots else 4,
                # Hollow, so that what edits are held against hides nothing.
                markerfacecolor="none" if styled_as[s.name].hollow else style,
                linestyle="none" if dots else "-",
                drawstyle="steps-post" if s.kind == "steps" else "default",
                # A mark at the very end of an axis is drawn whole.
                clip_on=panel.limits is None and panel.covers is None,
                gid=f"marks-{k}",
            )
            if s.lo and dots:
                ends = [[v - a for v, a in zip(s.y, s.lo, strict=True)]]
                ends.append([b - v for v, b in zip(s.y, s.hi, strict=True)])
                axis = "xerr" if panel.downwards else "yerr"
                clear = [[max(0.0, e) for e in side] for side in ends]
                ax.errorbar(*across, **{axis: clear}, fmt="none", ecolor=style, elinewidth=1.2)
            elif s.lo:
                ax.fill_between(s.x, s.lo, s.hi, color=style, alpha=0.15, linewidth=0)
        artists.append(artist)
    _axes(ax, panel)
    return artists


def _screened(ax: Any, panel: Panel, s: Series, style: str, shape: str) -> Any:
    """Small hollow dots; what goes on beyond the ends of the axis is marked there."""
    low, high = panel.limits or (-math.inf, math.inf)
    down, y, up = (
        [min(max(v, low), high) for v in values] for values in (s.lo or s.y, s.y, s.hi or s.y)
    )
    others = [o for o in panel.series if o.tentative]
    shift = ASIDE * (others.index(s) - (len(others) - 1) / 2)
    places = [float(x) + shift for x in s.x]
    ax.vlines(places, down, up, color=style, linewidth=0.7, alpha=0.5)
    plain = {"color": style, "linestyle": "none", "clip_on": False}
    thin = {"markersize": 3.2, "markerfacecolor": "none", "markeredgewidth": 0.7}
    [artist] = ax.plot(places, y, marker=shape, **thin, **plain)
    above = [x for x, v in zip(places, s.hi or s.y, strict=True) if v > high]
    below = [x for x, v in zip(places, s.lo or s.y, strict=True) if v < low]
    for at, mark, x in ((high, UP, above), (low, DOWN, below)):
        if x:
            ax.plot(x, [at] * len(x), marker=mark, markersize=9, markerfacecolor="none", **plain)
    return artist


def _aside(panel: Panel, s: Series) -> float:
    """How far from the middle of its categories a series stands, where several share them."""
    others = panel.dots
    step = LANES / max(len(others), PER_LINE)
    return (others.index(s) - (len(others) - 1) / 2) * step


def _join(ax: Any, panel: Panel, s: Series, places: Sequence[Any], style: str) -> None:
    """Lines from the dots of a series to what they are held against."""
    start = next((o for o in panel.series if o.baseline and o.kind == "dots"), None)
    if start is None:
        return
    before = dict(zip(start.x, start.y, strict=True))
    lines = [(at, before[x], y) for at, x, y in zip(places, s.x, s.y, strict=True) if x in before]
    for at, a, b in lines:
        ax.plot([a, b], [at, at], color=style, linewidth=2.5, alpha=0.3, solid_capstyle="butt")


def _spread(ax: Any, s: Series, height: float, style: Style) -> Any:
    """Every value as a dot along one line, with a box of quartiles behind."""
    from matplotlib.cbook import boxplot_stats

    [box] = boxplot_stats(list(s.y))
    if s.box:
        low, median, high = s.box
        reach = 1.5 * (high - low)
        inside = [y for y in s.y if low - reach <= y <= high + reach]
        box |= {"q1": low, "med": median, "q3": high}
        box |= {"whislo": min([low, *inside]), "whishi": max([high, *inside])}
    ax.bxp(
        [box],
        positions=[height],
        orientation="horizontal",
        widths=0.18,
        showfliers=False,
        manage_ticks=False,
        medianprops={"color": style.colour},
        boxprops={"color": style.colour},
        whiskerprops={"color": style.colour},
        capprops={"color": style.colour},
    )
    [artist] = ax.plot(
        s.y,
        [height] * len(s.y),
        color=style.colour,
        marker=style.marker,
        markerfacecolor="none" if style.hollow else style.colour,
        markersize=3,
        linestyle="none",
        alpha=0.5,
    )
    return artist


def _axes(ax: Any, panel: Panel) -> None:
    ax.set_title("\n".join(panel.heading), loc="left", fontsize="medium")
    ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
    ax.spines[["top", "right"]].set_visible(False)
    if panel.downwards:
        ax.set_yticks(range(len(panel.categories)), [*map(fitting, panel.categories)])
        ax.set_ylim(len(panel.categories) - 0.5, -0.5)
        ax.grid(axis="x", linewidth=0.5, alpha=0.4)
    else:
        ax.grid(axis="y", linewidth=0.5, alpha=0.4)
        if panel.is_spread:
            ax.grid(axis="x", linewidth=0.5, alpha=0.4)
            ax.set_yticks([])
            ax.set_ylim(1, 0)
        names = [str(x) for s in panel.series for x in s.x if isinstance(x, str)]
        if sum(map(len, names)) + 3 * len(names) > ACROSS:
            ax.tick_params(axis="x", labelrotation=20)
            for label in ax.get_xticklabels():
                label.set_horizontalalignment("right")
    if panel.downwards or panel.is_spread:
        ax.locator_params(axis="x", nbins=3 if panel.downwards else 5)
    whole = [isinstance(x, int) for s in panel.series for x in s.x]
    if whole and all(whole) and not panel.downwards:
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    for axis in (ax.xaxis, ax.yaxis):
        if hasattr(formatter := axis.get_major_formatter(), "set_useOffset"):
            formatter.set_useOffset(False)
    if panel.wide:
        ax.set_xscale("symlog", linthresh=1)
        ax.xaxis.set_major_formatter("{x:g}")
    if panel.limits is not None:
        (ax.set_xlim if panel.downwards or panel.is_spread else ax.set_ylim)(panel.limits)
    if panel.covers is not None and not (panel.downwards or panel.is_spread):
        reach = [*panel.covers, *panel.across]
        ax.set_xlim(min(reach), max(reach))


def styled(size: float = 8) -> Any:
    """Settings under which figures are drawn, as a context manager."""
    from matplotlib import rc_context

    salt = "countergen-edit"  # the same rows give the same file
    return rc_context(
        {
            "svg.hashsalt": salt,
            "svg.fonttype": "none",
            "font.size": size,
            "text.parse_math": False,  # a generated text may hold dollar signs
        }
    )


def drawn(panels: Sequence[Panel], title: str, styles: Styles) -> Any:
    """All panels on one matplotlib figure with one legend; call it under `styled`."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = max(panel.height for panel in panels)
    figure = Figure(figsize=(WIDTH * columns, height * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    styled_as = styles.figure(panels)
    shown: dict[str, Any] = {}
    for ax, panel in zip(axes.flat, panels, strict=False):
        artists = draw_panel(ax, panel, styled_as)
        for s, artist in zip(panel.series, artists, strict=True):
            if not (panel.downwards and {*s.x} == {s.name}):  # its name stands beside it already
                shown.setdefault(s.name, artist)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    figure.suptitle(title)
    if any(s.tentative for panel in panels for s in panel.series):
        hollow: dict[str, Any] = {"marker": "o", "markersize": 3, "markerfacecolor": "none"}
        shown[SCREENED] = Line2D([], [], color=GREY, linestyle="none", **hollow)
    if shown:
        figure.legend(
            handles=list(shown.values()),
            labels=[*map(fitting, shown)],
            loc="outside lower center",
            ncols=4,
            frameon=False,
        )
    return figure


def write(
    panels: Sequence[Panel],
    title: str,
    path: Path,
    endings: Sequence[str],
    styles: Styles,
) -> list[Path]:
    """Write a figure as `path` with each of the endings, each whole or not at all; the paths.

    Raises:
        UserError: a file cannot be written.
    """
    written = []
    with styled():
        figure = drawn(panels, title, styles)
        for ending in endings:
            written.append(path.with_name(path.name + ending))
            form, dated = ending.removeprefix("."), DATELESS.get(ending, {})
            with whole(written[-1]) as temporary:
                figure.savefig(temporary, format=form, dpi=150, metadata=dated)
    return written
