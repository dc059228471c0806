"""A panel as inline SVG of a page: themed by the page's style sheet, read by screen readers.

Comes in: a panel. Goes out: an `<svg>` element as text. Colours become variables of the page, so
that one drawing serves light and dark; what matplotlib adds for itself is left out.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET  # reads only what matplotlib wrote
from collections.abc import Mapping
from typing import Any

from countergen_edit.reports.panels import Panel
from countergen_edit.reports.render.drawing import WIDTH, draw_panel, styled
from countergen_edit.reports.render.styles import VARIABLES, Style

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
INK, GRID = "#010101", "#b0b0b0"
THEMED = VARIABLES | {INK: "var(--ink)", GRID: "var(--grid)"}
"""Colours as drawn → as the page names them."""
INKED: dict[Any, str] = {
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
FONT_SIZE = 9


def inline_svg(panel: Panel, key: str, styled_as: Mapping[str, Style]) -> str:
    """The panel as an `<svg>` element.

    Args:
        panel: what is drawn.
        key: begins every id, so that a page can hold many drawings.
        styled_as: the style of each series, by its name.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with styled(FONT_SIZE), rc_context(INKED):
        figure = Figure(figsize=(WIDTH, panel.height), layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        axes.patch.set_alpha(0)
        draw_panel(axes, panel, styled_as)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return _for_a_page(file.getvalue(), panel, key)


def described(panel: Panel) -> str:
    """A panel in words, for whoever cannot see it.

    >>> from countergen_edit.reports.panels import Series
    >>> described(Panel("jobs", "layer", "mean |R|", (Series("leace", (0,), (0.5,)),)))
    'jobs: mean |R| by layer; leace'
    """
    against = f" by {panel.x_label}" if panel.x_label else ""
    names = ", ".join(dict.fromkeys(s.name for s in panel.series))
    label = panel.x_label if panel.downwards else f"{panel.y_label}{against}"
    return f"{panel.title}: {label}; {names}"


def _for_a_page(text: str, panel: Panel, key: str) -> str:
    root = ET.fromstring(text)
    for child in list(root):
        if child.tag == f"{SVG}metadata" or _is_style(child):
            root.remove(child)
    _tips(root, panel)
    used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(
        re.findall(r'xlink:href="#([^"]+)"', text)
    )
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        name = element.attrib.pop("id", None)
        if name in used:
            element.set("id", f"{key}-{name}")
        if (target := element.attrib.pop(HREF, None)) is not None:
            element.set("href", f"#{key}-{target[1:]}")
        if (path := element.get("clip-path")) is not None:
            element.set("clip-path", path.replace("#", f"#{key}-"))
        if (style := element.get("style")) is not None:
            element.set("style", _themed(style))
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    title = ET.Element("title", id=f"{key}-title")
    title.text = described(panel)
    root.insert(0, title)
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title")
    return ET.tostring(root, encoding="unicode", short_empty_elements=True)


def _is_style(element: ET.Element) -> bool:
    return element.tag == f"{SVG}defs" and element.find(f"{SVG}style") is not None


def _themed(style: str) -> str:
    style = re.sub(r"#[0-9a-f]{6}", lambda m: THEMED.get(m[0], m[0]), style)
    style = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", style)
    return re.sub(r"font-family: [^;]*;? ?", "", style)


def _tips(root: ET.Element, panel: Panel) -> None:
    """Give every drawn mark the words that its series has for it."""
    for k, series in enumerate(panel.series):
        group = root.find(f".//{SVG}g[@id='marks-{k}']")
        if group is None:
            continue
        marks = group.findall(f".//{SVG}use")
        tips = series.tips or tuple(
            f"{series.name}, {x}: {y:.3f}" for x, y in zip(series.x, series.y, strict=True)
        )
        if len(marks) == len(tips):  # a mark outside the axes is not drawn
            for mark, tip in zip(marks, tips, strict=True):
                mark.set("data-tip", tip)
