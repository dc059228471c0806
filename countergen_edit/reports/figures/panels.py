"""What a figure shows, before it is drawn: panels of series, read off rows.

Comes in: panels. Goes out: an SVG and a PNG (matplotlib), and a page that answers the mouse
(plotly, whose program lies beside it once for all pages of a folder).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, which colour-blind readers tell apart."""
GREY = "#8c8c8c"
WIDTH, HEIGHT = 3.6, 2.9
"""Inches of one panel."""


@dataclass(frozen=True)
class Series:
    """Points of one name, in order; `lo` and `hi` are the ends of 95 % intervals."""

    name: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    lo: tuple[float, ...] = ()
    hi: tuple[float, ...] = ()
    kind: Literal["line", "level", "dots", "steps"] = "line"
    baseline: bool = False
    """Drawn in grey."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]


def colours(panels: Sequence[Panel]) -> dict[str, str]:
    """One colour for each name over all panels."""
    names = dict.fromkeys(s.name for p in panels for s in p.series if not s.baseline)
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}


def draw(panels: Sequence[Panel], title: str, path: Path) -> list[Path]:
    """Write a figure as `path` with the endings .svg, .png and .html."""
    return [*_static(panels, title, path), _page(panels, title, path)]


def _static(panels: Sequence[Panel], title: str, path: Path) -> list[Path]:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    colour = colours(panels)
    # A fixed salt and no date: the same rows give the same file.
    with rc_context({"svg.hashsalt": "countergen-edit", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows + 0.5), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        shown: dict[str, Any] = {}
        for ax, panel in zip(axes.flat, panels, strict=False):
            for s in panel.series:
                style = GREY if s.baseline else colour[s.name]
                if s.kind == "level":
                    artist = ax.axhline(s.y[0], color=style, linestyle="--", linewidth=1)
                elif s.kind == "dots":
                    spread = None
                    if s.lo:
                        spread = [
                            [max(0.0, y - a) for y, a in zip(s.y, s.lo, strict=True)],
                            [max(0.0, b - y) for y, b in zip(s.y, s.hi, strict=True)],
                        ]
                    artist = ax.errorbar(s.x, s.y, spread, fmt="o", color=style, markersize=4)
                else:
                    drawn = "steps-post" if s.kind == "steps" else "default"
                    [artist] = ax.plot(
                        s.x, s.y, color=style, marker="o", markersize=3, drawstyle=drawn
                    )
                    if s.lo:
                        ax.fill_between(s.x, s.lo, s.hi, color=style, alpha=0.15, linewidth=0)
                shown.setdefault(s.name, artist)
            ax.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
            ax.spines[["top", "right"]].set_visible(False)
        for ax in axes.flat[len(panels) :]:
            ax.set_visible(False)
        figure.suptitle(title)
        figure.legend(
            handles=list(shown.values()),
            labels=list(shown),
            loc="outside lower center",
            ncols=4,
            frameon=False,
        )
        written = []
        for ending, metadata in ((".svg", {"Date": None}), (".png", {})):
            written.append(path.with_suffix(ending))
            figure.savefig(written[-1], dpi=150, metadata=metadata)
    return written


def _page(panels: Sequence[Panel], title: str, path: Path) -> Path:
    from plotly.graph_objects import Figure
    from plotly.subplots import make_subplots

    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    colour = colours(panels)
    figure: Figure = make_subplots(rows, columns, subplot_titles=[p.title for p in panels])
    seen: set[str] = set()
    for i, panel in enumerate(panels):
        at = {"row": i // columns + 1, "col": i % columns + 1}
        for s in panel.series:
            style = GREY if s.baseline else colour[s.name]
            if s.kind == "level":
                figure.add_hline(s.y[0], line={"color": style, "dash": "dash"}, **at)
                continue
            spread = None
            if s.lo:
                spread = {
                    "array": [max(0.0, b - y) for y, b in zip(s.y, s.hi, strict=True)],
                    "arrayminus": [max(0.0, y - a) for y, a in zip(s.y, s.lo, strict=True)],
                    "thickness": 1,
                }
            figure.add_scatter(
                x=list(s.x),
                y=list(s.y),
                error_y=spread,
                name=s.name,
                legendgroup=s.name,
                showlegend=s.name not in seen,
                mode="markers" if s.kind == "dots" else "lines+markers",
                line={"color": style, "shape": "hv" if s.kind == "steps" else "linear"},
                marker={"color": style},
                **at,
            )
            seen.add(s.name)
        figure.update_xaxes(title_text=panel.x_label, **at)
        figure.update_yaxes(title_text=panel.y_label, **at)
    figure.update_layout(title=title, template="plotly_white", height=340 * rows + 120)
    page = path.with_suffix(".html")
    figure.write_html(page, include_plotlyjs="directory", div_id=path.name)
    return page


def dataset_label(dataset: str) -> str:
    """A set's name as a title.

    >>> dataset_label("double_bind_success_test")
    'double bind success'
    """
    return dataset.removesuffix("_test").removesuffix("_fit").replace("_", " ")
