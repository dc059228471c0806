"""Figures over layers: one line for each eraser, from edits at exactly one layer."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.core.writing import digest
from countergen_edit.data.axis import Split
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import NO_EDIT, Results
from countergen_edit.metrics.rows import UNEDITED, Row, dataset_label, set_label
from countergen_edit.reports.blocks import Figure
from countergen_edit.reports.panels import Ends, Panel, Series
from countergen_edit.reports.views.base import grouped

_MOST_SETS = 9
_MARGIN = 0.3
SHARE = (0.0, 1.03)
_Single = tuple[Row, EditRecord]


def _single(results: Results, metric: str, split: str) -> list[_Single]:
    """The rows of a metric under edits at one layer that were fitted alone."""
    pairs = [(row, results.records.get(row.edit)) for row in results.of(metric, split)]
    alone = [(row, e) for row, e in pairs if e and not (e.baseline_kind or e.after)]
    return [(row, e) for row, e in alone if len(e.places) == len(e.layers) == 1]


def widest_split(results: Results, metric: str) -> Split:
    """The split with most edits at one layer; the test split of equals."""
    validated, tested = (
        {edit.id for _, edit in _single(results, metric, split) if not edit.baseline}
        for split in ("validation", "test")
    )
    return "validation" if len(validated) > len(tested) else "test"


def layer_figures(
    results: Results, metric: str, name: str, heading: str, axis: str, limits: Ends | None = None
) -> list[Figure]:
    """A figure for each site with edits at several layers, with a panel for each set.

    `axis` and `limits` are the label and the least ends of the vertical axis.
    """
    split = widest_split(results, metric)
    pairs = [*_single(results, metric, split), *_single(results, metric, "fit")]
    figures = []
    for site, of_site in grouped(pairs, lambda pair: pair[1].sites[0]).items():
        layers = {e.layers[0] for _, e in of_site}
        if len(layers) < 2:
            continue
        covers, panels = (min(layers) - _MARGIN, max(layers) + _MARGIN), []
        by_set = grouped(of_site, lambda pair: (dataset_label(pair[0].dataset), pair[0].split))
        for of_set in [*by_set.values()][:_MOST_SETS]:
            first = of_set[0][0]
            series = _lines(of_set)
            if before := results.under(first, UNEDITED):
                level = (before.value or 0.0,)
                series.insert(0, Series(NO_EDIT, (), level, kind="level", baseline=True))
            title = set_label(first) + (", fitting data" if first.split == "fit" else "")
            panels.append(Panel(title, "layer", axis, (*series,), limits=limits, covers=covers))
        note = "Lines are erasers, with their ranks and 95 % intervals; dashed: the unedited model."
        title = f"{heading} under an edit at each layer, {site} ({split} data)"
        figures.append(Figure(f"{name}_{site}", title, tuple(panels), note))
    return figures


def _lines(pairs: Sequence[_Single]) -> list[Series]:
    """A line for each eraser and its parameters, which tell equal names apart."""
    by_recipe = grouped(pairs, lambda pair: (pair[1].eraser, digest(pair[1].params))).values()
    names = []
    for of_recipe in by_recipe:
        low, high = (end(edit.rank for _, edit in of_recipe) for end in (min, max))
        names.append(f"{of_recipe[0][1].eraser}-{low}" + (f"…{high}" if high > low else ""))
    lines = []
    for name, of_recipe in zip(names, by_recipe, strict=True):
        rows, edits = zip(*sorted(of_recipe, key=lambda pair: pair[1].layers), strict=True)
        params = ", ".join(f"{k}={v}" for k, v in edits[0].params.items())
        label = f"{name} ({params})" if names.count(name) > 1 and params else name
        layers = [edit.layers[0] for edit in edits]
        lines.append(Series.of(label, layers, rows, edits[0].baseline, "line"))
    return lines
