"""A figure as files and as a page of its own that answers the mouse.

Comes in: panels. Goes out: SVG and PNG (matplotlib), and a page (plotly, whose program lies beside
it once for all pages of a folder).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from countergen_edit.reports.figures.panels import GREY, Panel, colours, write


def draw(panels: Sequence[Panel], title: str, path: Path) -> list[Path]:
    """Write a figure as `path` with the endings .svg, .png and .html."""
    return [*write(panels, title, path, (".svg", ".png")), _page(panels, title, path)]


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
