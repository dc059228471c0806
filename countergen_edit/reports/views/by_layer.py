"""Figures over layers: one line for each eraser, from edits at exactly one layer."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.core.writing import digest
from countergen_edit.data.axis import Split
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row, dataset_label, set_label
from countergen_edit.reports.blocks import Figure
from countergen_edit.reports.panels import Panel, Series, level, line
from countergen_edit.reports.views.base import Ends, grouped

MOST_SETS = 9
"""Sets with a panel each."""
MARGIN = 0.3
"""Room beside the first and the last layer."""
SHARE = (0.0, 1.03)
"""Ends of the axis of a share."""

Recipe = tuple[str, str]
"""An eraser's name and a digest of its parameters."""


def recipe(record: EditRecord) -> Recipe:
    """The eraser and its parameters, which are the same at every layer; ranks may differ."""
    return record.eraser, digest(record.params)


def eraser_labels(records: Sequence[EditRecord]) -> dict[Recipe, str]:
    """The label of each eraser: its name, its rank or ranks, its parameters where needed.

    >>> from countergen_edit.edits import Place
    >>> def own(rank, layer, params):
    ...     return EditRecord("", "own", params, (Place("resid_post", layer, rank),))
    >>> records = [own(6, 0, {"rank": "cv"}), own(3, 1, {"rank": "cv"}), own(2, 0, {})]
    >>> list(eraser_labels(records).values())
    ['own-3…6', 'own-2']
    >>> list(eraser_labels([own(1, 0, {"tol": 0.1}), own(1, 0, {})]).values())
    ['own-1 (tol=0.1)', 'own-1']
    """
    by_recipe, labels = grouped(records, recipe), dict[Recipe, str]()
    for key, same in by_recipe.items():
        low, *_, high = sorted([record.rank for record in same] * 2)
        labels[key] = f"{same[0].eraser}-{low}" + (f"…{high}" if high > low else "")
    plain = [*labels.values()]
    for key, label in labels.items():
        params = ", ".join(f"{k}={v}" for k, v in by_recipe[key][0].params.items())
        if plain.count(label) > 1 and params:
            labels[key] = f"{label} ({params})"
    return labels


def single(results: Results, rows: Sequence[Row]) -> list[tuple[Row, EditRecord]]:
    """The rows of edits at one layer that were fitted alone, with their records."""
    pairs = [(row, results.records[row.edit]) for row in rows if row.edit in results.records]
    return [
        (row, e)
        for row, e in pairs
        if len(e.places) == len(e.layers) == 1 and not (e.baseline_kind or e.after)
    ]


def widest_split(results: Results, metric: str) -> Split:
    """The split with most edits at one layer; the test split of equals."""
    splits: tuple[Split, ...] = ("test", "validation")
    return max(
        splits,
        key=lambda split: len(
            {e.id for _, e in single(results, results.of(metric, split)) if not e.baseline}
        ),
    )


def by_layer(results: Results, rows: Sequence[Row]) -> list[Series]:
    """One line for each eraser, from the rows of one set."""
    pairs = sorted(single(results, rows), key=lambda pair: pair[1].layers)
    labels = eraser_labels([results.records[r.edit] for r in rows if r.edit in results.records])
    series = []
    for key, name in labels.items():
        if mine := [(row, e) for row, e in pairs if recipe(e) == key]:
            layers = [e.layers[0] for _, e in mine]
            series.append(line(name, layers, [row for row, _ in mine], mine[0][1].baseline))
    return series


def layer_figures(
    results: Results, metric: str, name: str, heading: str, axis: str, limits: Ends | None = None
) -> list[Figure]:
    """A figure for each site with edits at several layers, with a panel for each set.

    `axis` and `limits` are the label and the least ends of the vertical axis.
    """
    split = widest_split(results, metric)
    pairs = single(results, results.of(metric, split))
    figures = []
    for site, of_site in grouped(pairs, lambda pair: pair[1].sites[0]).items():
        layers = {e.layers[0] for _, e in of_site}
        if len(layers) < 2:
            continue
        covers, panels = (min(layers) - MARGIN, max(layers) + MARGIN), []
        by_set = grouped([row for row, _ in of_site], lambda row: dataset_label(row.dataset))
        for mine in list(by_set.values())[:MOST_SETS]:
            before = results.under(mine[0], UNEDITED)
            series = (*([level(before)] if before else []), *by_layer(results, mine))
            title = set_label(mine[0])
            panels.append(Panel(title, "layer", axis, series, False, limits, covers))
        note = "Lines are erasers, with their ranks and 95 % intervals; dashed: the unedited model."
        title = f"{heading}, {site} ({split} data)"
        figures.append(Figure(f"{name}_{site}", title, tuple(panels), note))
    return figures
