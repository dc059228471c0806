"""A sweep's figures: bias by layer (CounterGen, Figures 2 and 3), edits side by side (Figure 1),
and bias removed against cost.

Comes in: rows. Goes out: files in the run folder.
"""

from __future__ import annotations

from pathlib import Path

from countergen_edit.metrics.rows import BASELINE, Row
from countergen_edit.reports.figures.panels import Panel, Series, dataset_label, write
from countergen_edit.reports.results import Results
from countergen_edit.reports.sweep_table import asked, eraser_label, eraser_labels, site_of

ENDINGS = (".svg", ".png")
MOST_COST = 100.0
"""Costs beyond are shown here: what is a hundred times too dear is too dear."""


def layer_panels(results: Results, site: str, metric: str = "mean_abs_r") -> list[Panel]:
    """For each set the metric after editing at each layer, and without an edit."""
    panels = []
    for row in _unedited(results, metric):
        rows = [r for r in _of_set(results, row) if site_of(r) == site]
        series = [_level(row)]
        for key, name in eraser_labels(rows).items():
            line = sorted((r for r in rows if asked(r) == key), key=lambda r: r.layer or 0)
            series.append(_series(name, [r.layer or 0 for r in line], line))
        panels.append(Panel(_title(row), "layer", _y_label(metric), tuple(series)))
    return panels


def bar_panels(results: Results, layer: int | None, metric: str = "mean_abs_r") -> list[Panel]:
    """For each set the metric without an edit and under each edit of one layer."""
    panels = []
    for row in _unedited(results, metric):
        rows = [r for r in _of_set(results, row) if r.layer == layer]
        series = [_series("no edit", ["no edit"], [row], kind="dots")]
        for r in rows:
            series.append(_series(eraser_label(r), [eraser_label(r)], [r], kind="dots"))
        panels.append(Panel(_title(row), "", _y_label(metric), tuple(series)))
    return panels


def front_panels(results: Results) -> list[Panel]:
    """Bias removed against cost: validation data, where the choice is made, and test data."""
    rows = results.of("cost", "validation")
    panels = []
    for split, ending in (("validation", ""), ("test", "_test")):
        series = []
        for name in dict.fromkeys(r.eraser for r in rows):
            points = [r for r in rows if r.eraser == name]
            x = tuple(_cost(r, ending) for r in points)
            y = tuple(float(r.detail["removed" + ending]) for r in points)
            series.append(Series(name, x, y, kind="dots", baseline=name == BASELINE))
        front = sorted((r for r in rows if r.detail["front"]), key=lambda r: r.value or 0)
        if split == "validation":
            steps = tuple(float(r.detail["removed"]) for r in front)
            series.append(Series("front", tuple(_cost(r, "") for r in front), steps, kind="steps"))
        chosen = [r for r in rows if r.detail["chosen"]]
        removed = tuple(float(r.detail["removed" + ending]) for r in chosen)
        series.append(
            Series("chosen", tuple(_cost(r, ending) for r in chosen), removed, kind="dots")
        )
        panels.append(
            Panel(
                f"{split} data",
                "cost (1 = all that is tolerated)",
                "mean |R| removed",
                tuple(series),
                wide=True,
            )
        )
    return panels


def write_figures(results: Results, folder: Path) -> list[Path]:
    """Write every figure that the rows have something for, axis by axis; the paths, in order.

    Raises:
        UserError: the folder cannot be written.
    """
    parts = results.by_axis().items()
    return [path for axis, part in parts for path in _of_axis(part, folder, axis)]


def _of_axis(results: Results, folder: Path, axis: str) -> list[Path]:
    single = [r for r in results.of("bias_removed") if " + " not in r.edit]
    written = []
    for site in dict.fromkeys(site_of(r) for r in single):
        layers = sorted({r.layer for r in single if site_of(r) == site and r.layer is not None})
        stem = site.replace(", ", "-")
        for metric in ("mean_abs_r", "r"):
            if len(layers) > 1:
                panels = layer_panels(results, site, metric)
                title = f"{_y_label(metric)} after an edit at {site}, layer by layer"
                written += write(panels, title, folder / f"layers-{stem}-{metric}", ENDINGS)
            else:
                layer = layers[0] if layers else None
                title = f"{_y_label(metric)} after an edit at {site}" + (
                    f", layer {layer}" if layers else ""
                )
                panels = bar_panels(results, layer, metric)
                written += write(panels, title, folder / f"edits-{stem}-{metric}", ENDINGS)
    if results.of("cost", "validation"):
        stem, title = "front", "Bias removed against cost"
        if axis:
            stem, title = f"{stem}-{axis}", f"{title}, {axis}"
        written += write(front_panels(results), title, folder / stem, ENDINGS)
    return written


def _unedited(results: Results, metric: str) -> list[Row]:
    rows = [*results.of(metric), *results.of(metric, "fit")]
    return [r for r in rows if r.edit == "none"]


def _of_set(results: Results, row: Row) -> list[Row]:
    """The single edits' rows of the set and metric of an unedited row."""
    return [
        r
        for r in results.of(row.metric, row.split)
        if r.dataset == row.dataset and r.eraser and " + " not in r.edit
    ]


def _level(row: Row) -> Series:
    return Series("no edit", (), (row.value or 0.0,), kind="level", baseline=True)


def _series(name: str, x: list[int] | list[str], rows: list[Row], kind: str = "line") -> Series:
    known = all(r.lo is not None and r.hi is not None for r in rows)
    return Series(
        name,
        tuple(x),
        tuple(r.value or 0.0 for r in rows),
        tuple(r.lo or 0.0 for r in rows) if known else (),
        tuple(r.hi or 0.0 for r in rows) if known else (),
        "dots" if kind == "dots" else "line",
        name == "no edit" or name.partition("-")[0] == BASELINE,
    )


def _title(row: Row) -> str:
    return dataset_label(row.dataset) + (" (fitted)" if row.split == "fit" else "")


def _y_label(metric: str) -> str:
    return {"mean_abs_r": "mean |R|", "r": "mean R"}[metric]


def _cost(row: Row, ending: str) -> float:
    cost = row.detail["cost" + ending] if ending else row.value
    return min(MOST_COST, float(cost or 0.0))
