"""What a figure shows, before it is drawn: panels of series, read off rows.

Comes in: panels. Goes out: matplotlib figures, and files of them (SVG, PDF, PNG).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from countergen_edit.metrics.panels import BESIDE, Panel, Series, fitting
from countergen_edit.writing import whole

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which colour-blind readers tell apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
"""Shapes tell series apart without any colour."""
BAR = 0.8
"""Share of a category's room that its bars take together."""
LANES = 0.7
"""Share of a category's room that series take together which have room of their own."""
GREY = "#8c8c8c"
WIDTH = 3.6
"""Inches of one panel."""
ACROSS = 40
"""Letters that the categories below a panel take side by side; more are slanted."""
FULL_SHADE = 0.25
"""Value of a token at which its colour is at its strongest."""
DATELESS = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""Metadata by ending; without a date the same rows give the same file."""


def colours(panels: Sequence[Panel], erasers: Sequence[str] = ()) -> dict[str, str]:
    """One colour for each name over all panels; an eraser's edits have its own everywhere.

    Args:
        panels: of a figure.
        erasers: of the whole report, in one order.

    >>> dots = [Series(name, (0,), (1.0,)) for name in ("chosen", "leace-1", "inlp-8@resid_post.4")]
    >>> found = colours([Panel("", "", "", tuple(dots))], ["inlp", "rlace", "leace"])
    >>> [COLOURS.index(found[s.name]) for s in dots]
    [1, 2, 0]
    """
    names = [s.name for p in panels for s in p.series if not s.baseline]
    own = {name: COLOURS[i] for name in names if (i := place_of(name, erasers)) is not None}
    free = [colour for colour in COLOURS if colour not in own.values()] or COLOURS
    return _told_apart([name for name in names if name not in own], free) | own


def place_of(name: str, erasers: Sequence[str]) -> int | None:
    """Which colour the name of an edit has by its eraser; None where it names none of them.

    >>> erasers = ["rlace", "lace", "sal (own)"]
    >>> [place_of(name, erasers) for name in ("rlace-1@mlp_out", "→ lace", "laces", "sal (own)")]
    [0, 1, None, 2]
    """
    name = name.removeprefix("→ ")
    known = [e for e in erasers if re.match(rf"{re.escape(e)}(?!\w)", name)]
    return erasers.index(max(known, key=len)) % len(COLOURS) if known else None


def markers(panels: Sequence[Panel]) -> dict[str, str]:
    """One shape for each name over all panels; baselines take what the others leave."""
    series = sorted((s for p in panels for s in p.series), key=lambda s: s.baseline)
    return _told_apart([s.name for s in series], MARKERS)


def _told_apart(names: Sequence[str], marks: Sequence[str]) -> dict[str, str]:
    """A mark for each name.

    >>> _told_apart(["a", "b", "a", "c"], "+-")
    {'a': '+', 'b': '-', 'c': '+'}
    """
    return {name: marks[i % len(marks)] for i, name in enumerate(dict.fromkeys(names))}


def draw_panel(ax: Any, panel: Panel, colour: dict[str, str], marker: dict[str, str]) -> list[Any]:
    """Draw a panel on matplotlib axes; one artist for each of its series, for a legend."""
    artists = []
    place = {name: i for i, name in enumerate(panel.categories)} if panel.downwards else {}
    for k, s in enumerate(panel.series):
        style, shape = GREY if s.baseline else colour[s.name], marker[s.name]
        x: list[float | str] = list(s.x)
        if panel.downwards:
            x = [place[str(value)] for value in s.x]
        if panel.joined and s.kind == "dots" and not s.baseline:
            x = [place[str(value)] + _aside(panel, s) for value in s.x]
            _join(ax, panel, s, x, style)
        across = (s.y, x) if panel.downwards else (x, s.y)
        if s.kind == "level":
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
            artist = _spread(ax, s, height, style, shape)
            artist.set_gid(f"marks-{k}")
        else:
            dots = s.kind == "dots"
            [artist] = ax.plot(
                *across,
                color=style,
                marker=shape,
                markersize=4.5 if dots else 3.5,
                # Hollow, so that what edits are held against hides nothing.
                markerfacecolor="none" if dots and s.baseline else style,
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


def _aside(panel: Panel, s: Series) -> float:
    """How far from the middle of its categories a series stands, where several share them."""
    others = panel.dots
    step = LANES / max(len(others), BESIDE)
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


def _spread(ax: Any, s: Series, height: float, style: str, shape: str) -> Any:
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
        medianprops={"color": style},
        boxprops={"color": style},
        whiskerprops={"color": style},
        capprops={"color": style},
    )
    [artist] = ax.plot(
        s.y,
        [height] * len(s.y),
        color=style,
        marker=shape,
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

        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in (ax.xaxis, ax.yaxis):
        if hasattr(formatter := axis.get_major_formatter(), "set_useOffset"):
            formatter.set_useOffset(False)
    if panel.wide:
        ax.set_xscale("symlog", linthresh=1)
        ax.xaxis.set_major_formatter("{x:g}")
    if panel.limits is not None:
        (ax.set_xlim if panel.downwards or panel.is_spread else ax.set_ylim)(panel.limits)
    if panel.covers is not None:
        low, high = ax.get_xlim()
        ax.set_xlim(min(low, panel.covers[0]), max(high, panel.covers[1]))


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


def drawn(panels: Sequence[Panel], title: str, erasers: Sequence[str] = ()) -> Any:
    """All panels on one matplotlib figure with one legend; call it under `styled`."""
    from matplotlib.figure import Figure

    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    height = max(panel.height for panel in panels)
    figure = Figure(figsize=(WIDTH * columns, height * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    colour, marker = colours(panels, erasers), markers(panels)
    shown: dict[str, Any] = {}
    for ax, panel in zip(axes.flat, panels, strict=False):
        artists = draw_panel(ax, panel, colour, marker)
        for s, artist in zip(panel.series, artists, strict=True):
            if not (panel.downwards and {*s.x} == {s.name}):  # its name stands beside it already
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
    return figure


def write(
    panels: Sequence[Panel],
    title: str,
    path: Path,
    endings: Sequence[str],
    erasers: Sequence[str] = (),
) -> list[Path]:
    """Write a figure as `path` with each of the endings, each whole or not at all; the paths.

    Raises:
        UserError: a file cannot be written.
    """
    written = []
    with styled():
        figure = drawn(panels, title, erasers)
        for ending in endings:
            written.append(path.with_name(path.name + ending))
            form, dated = ending.removeprefix("."), DATELESS.get(ending, {})
            with whole(written[-1]) as temporary:
                figure.savefig(temporary, format=form, dpi=150, metadata=dated)
    return written
