"""One axis for each measure of a page, so that lengths can be compared from panel to panel.

Comes in: sections. Goes out: the same, every axis of one label between the same ends. They are 0
and just above what was measured, wherever on the page; a panel that `covers` more, or begins
elsewhere, such as a ratio at 1, says so for all of its label. What few names said widens no axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from countergen_edit.reports.blocks import Block, Figure, Fold, Section
from countergen_edit.reports.panels import Panel

Ends = tuple[float, float]
ROOM = 0.05
"""Share of an axis that is left free beyond what was measured."""


def on_shared_axes(parts: Sequence[Section]) -> list[Section]:
    """The sections with the ends of every axis of their figures."""
    asked: dict[str, list[Ends]] = {}
    full: dict[str, list[float]] = {}
    few: dict[str, list[float]] = {}
    for panel in (p for part in parts for figure in part.figures() for p in figure.panels):
        for _, label, ends, measured, screened in _axes(panel):
            asked.setdefault(label, []).extend(ends)
            full.setdefault(label, []).extend(filter(math.isfinite, measured))
            few.setdefault(label, []).extend(filter(math.isfinite, screened))
    found = {label: _ends(full[label] or few[label], ends) for label, ends in asked.items()}
    return [replace(part, blocks=tuple(_block(b, found) for b in part.blocks)) for part in parts]


def _axes(panel: Panel) -> Iterator[tuple[str, str, list[Ends], list[float], list[float]]]:
    """Of each axis of a measure its field, label, the ends asked for, and the values on it."""
    sideways = panel.downwards or panel.is_spread
    asked = [panel.limits] if not sideways else [panel.limits, panel.covers]
    full, few = (
        [v for s in panel.series if s.tentative == of_few for v in (*s.y, *s.lo, *s.hi)]
        for of_few in (False, True)
    )
    label = panel.x_label if sideways else panel.y_label
    yield "limits", label, [ends for ends in asked if ends is not None], full, few
    if panel.covers is not None and not sideways:
        yield "covers", panel.x_label, [panel.covers], panel.across, []


def _ends(values: Sequence[float], asked: Sequence[Ends]) -> Ends:
    """Ends of an axis.

    >>> _ends([0.2, 0.8], []), _ends([0.2, 1.0], [(0.0, 1.0)]), _ends([1.02], [(1.0, 1.01)])
    ((0.0, 0.84), (0.0, 1.0), (1.0, 1.021))
    >>> _ends([-0.5, 0.5], [])
    (-0.55, 0.55)
    """
    start = min((low for low, _ in asked), default=0.0)
    end = max((high for _, high in asked), default=start)
    low, high = min([start, *values]), max([end, *values])
    room = ROOM * (high - low) or 1.0
    kept = bool(asked) and high == end
    return low if low == start else low - room, high if kept else round(high + room, 12)


def _block(block: Block, found: Mapping[str, Ends]) -> Block:
    if isinstance(block, Fold):
        return replace(block, blocks=tuple(_block(b, found) for b in block.blocks))  # type: ignore[misc]
    if not isinstance(block, Figure):
        return block
    panels = (
        replace(panel, **{field: found[label] for field, label, *_ in _axes(panel)})  # type: ignore[arg-type]
        for panel in block.panels
    )
    return replace(block, panels=tuple(panels))
