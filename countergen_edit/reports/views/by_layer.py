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
"""Sets with a panel each."""
_MARGIN = 0.3
"""Room beside the first and the last layer."""
SHARE = (0.0, 1.03)
"""Ends of the axis of a share."""
Single = tuple[Row, EditRecord]
"""A row of an edit at one layer that was fitted alone, and the edit."""


def recipe(record: EditRecord) -> tuple[str, str]:
    """The eraser and a digest of its parameters, the same at every layer; ranks may differ."""
    return record.eraser, digest(record.params)


def eraser_labels(records: Sequence[EditRecord]) -> dict[tuple[str, str], str]:
    """The label of each recipe: its eraser, its rank or ranks, its parameters where needed.

    >>> from countergen_edit.edits import Place
    >>> def own(rank, layer, params):
    ...     return EditRecord("", "own", params, (Place("resid_post", layer, rank),))
    >>> records = [own(6, 0, {"rank": "cv"}), own(3, 1, {"rank": "cv"}), own(2, 0, {})]
    >>> list(eraser_labels(records).values())
    ['own-3…6', 'own-2']
    >>> list(eraser_labels([own(1, 0, {"tol": 0.1}), own(1, 0, {})]).values())
    ['own-1 (tol=0.1)', 'own-1']
    """
    labels = {}
    by_recipe = grouped(records, recipe)
    for key, same in by_recipe.items():
        low, high = (end(record.rank for record in same) for end in (min, max))
        labels[key] = f"{same[0].eraser}-{low}" + (f"…{high}" if high > low else "")
    plain = [*labels.values()]
    for key, same in by_recipe.items():
        params = ", ".join(f"{k}={v}" for k, v in same[0].params.items())
        if plain.count(labels[key]) > 1 and params:
            labels[key] += f" ({params})"
    return labels


def single(results: Results, metric: str, split: str) -> list[Single]:
    """The rows of a metric under edits at one layer that were fitted alone."""
    pairs = [(row, results.records.get(row.edit)) for row in results.of(metric, split)]
    alone = [(row, e) for row, e in pairs if e and not (e.baseline_kind or e.after)]
    return [(row, e) for row, e in alone if len(e.places) == len(e.layers) == 1]


def widest_split(results: Results, metric: str) -> Split:
    """The split with most edits at one layer; the test split of equals."""

    def count(split: Split) -> int:
        return len({e.id for _, e in single(results, metric, split) if not e.baseline})

    return "validation" if count("validation") > count("test") else "test"


def layer_figures(
    results: Results, metric: str, name: str, heading: str, axis: str, limits: Ends | None = None
) -> list[Figure]:
    """A figure for each site with edits at several layers, with a panel for each set.

    `axis` and `limits` are the label and the least ends of the vertical axis.
    """
    split = widest_split(results, metric)
    pairs = [*single(results, metric, split), *single(results, metric, "fit")]
    figures = []
    for site, of_site in grouped(pairs, lambda pair: pair[1].sites[0]).items():
        layers = {e.layers[0] for _, e in of_site}
        if len(layers) < 2:
            continue
        covers, panels = (min(layers) - _MARGIN, max(layers) + _MARGIN), []
        by_set = grouped(of_site, lambda pair: (dataset_label(pair[0].dataset), pair[0].split))
        for of_set in [*by_set.values()][:_MOST_SETS]:
            first = of_set[0][0]
            before = results.under(first, UNEDITED)
            series = _lines(of_set)
            if before is not None:
                level = (before.value or 0.0,)
                series.insert(0, Series(NO_EDIT, (), level, kind="level", baseline=True))
            title = set_label(first) + (", fitting data" if first.split == "fit" else "")
            panels.append(Panel(title, "layer", axis, (*series,), limits=limits, covers=covers))
        note = "Lines are erasers, with their ranks and 95 % intervals; dashed: the unedited model."
        title = f"{heading}, {site} ({split} data)"
        figures.append(Figure(f"{name}_{site}", title, tuple(panels), note))
    return figures


def _lines(pairs: Sequence[Single]) -> list[Series]:
    labels = eraser_labels([e for _, e in pairs])
    by_recipe = grouped(sorted(pairs, key=lambda pair: pair[1].layers), lambda p: recipe(p[1]))
    lines = []
    for key, name in labels.items():
        rows, edits = zip(*by_recipe[key], strict=True)
        layers = [edit.layers[0] for edit in edits]
        lines.append(Series.of(name, layers, rows, edits[0].baseline, "line"))
    return lines
