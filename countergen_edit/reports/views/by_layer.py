"""A figure of every edit at one layer, drawn by layer: one line for each eraser.

Comes in: the rows of a metric. Goes out: panels and figures over layers. Only an edit with exactly
one place, and a layer there, has a point: combined edits have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from countergen_edit.core.writing import digest
from countergen_edit.data.axis import Split
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import SCREENING, UNEDITED, Row, dataset_label
from countergen_edit.reports.blocks import Figure
from countergen_edit.reports.panels import Panel, Series, dots, level, line

MOST_SETS = 9
"""Sets that get a panel of their own."""
BASELINES = 0.3
"""Room on both sides of the layers, so that the first and the last are drawn whole."""
SHARE = (0.0, 1.03)
"""Ends of the axis of what lies between 0 and 1, so that panels can be compared."""

Recipe = tuple[str, str]
"""An eraser's name in a run, and a digest of its parameters."""


def recipe(record: EditRecord) -> Recipe:
    """What was asked of an edit's eraser, the same at every layer; its rank may be left to fits."""
    return record.eraser, digest(record.params)


def eraser_labels(records: Sequence[EditRecord]) -> dict[Recipe, str]:
    """For each eraser as it was asked for, its label; where its rank differs by layer, the span.

    Parameters are told where two of one name and rank differ in nothing else.

    >>> from countergen_edit.edits import Place
    >>> def own(rank, layer, params):
    ...     return EditRecord("", "own", params, (Place("resid_post", layer, rank),))
    >>> records = [own(6, 0, {"rank": "cv"}), own(3, 1, {"rank": "cv"}), own(2, 0, {})]
    >>> list(eraser_labels(records).values())
    ['own-3…6', 'own-2']
    >>> list(eraser_labels([own(1, 0, {"tol": 0.1}), own(1, 0, {})]).values())
    ['own-1 (tol=0.1)', 'own-1']
    """
    alike: dict[Recipe, list[EditRecord]] = {}
    for record in records:
        alike.setdefault(recipe(record), []).append(record)
    labels = {}
    for key, same in alike.items():
        ranks = [record.rank for record in same]
        labels[key] = f"{same[0].eraser}-{min(ranks)}" + (
            f"…{max(ranks)}" if max(ranks) > min(ranks) else ""
        )
    plain = [*labels.values()]
    for key, label in labels.items():
        params = ", ".join(f"{name}={value}" for name, value in alike[key][0].params.items())
        if plain.count(label) > 1 and params:
            labels[key] = f"{label} ({params})"
    return labels


def single(results: Results, rows: Sequence[Row]) -> list[tuple[Row, EditRecord]]:
    """The rows of edits that are one erasure at one layer, fitted alone, each with its record."""
    pairs = [(row, results.records[row.edit]) for row in rows if row.edit in results.records]
    return [
        (row, e)
        for row, e in pairs
        if len(e.places) == len(e.layers) == 1 and not (e.baseline_kind or e.after)
    ]


def widest_split(results: Results, metric: str) -> Split:
    """The split on which most single edits were measured: test data where all were."""
    splits: tuple[Split, ...] = ("test", "validation")
    counts = {
        split: len({e.id for _, e in single(results, results.of(metric, split)) if not e.baseline})
        for split in splits
    }
    return max(splits, key=lambda split: counts[split])


def of_layers(results: Results, metric: str) -> tuple[list[Row], Split]:
    """The rows of a metric that figures by layer show, and the split of those measured in full.

    An edit that fell away before has its row of the last screening that it was in; such rows come
    after all others.
    """
    split = widest_split(results, metric)
    rows = results.of(metric, split)
    in_full = {row.edit for row in rows}
    last: dict[tuple[object, ...], Row] = {}
    for row in results.of(metric, SCREENING):
        if row.edit not in in_full:
            last[row.edit, row.dataset, row.group_a, row.group_b] = row
    return [*rows, *last.values()], split


def by_layer(
    results: Results, rows: Sequence[Row], labels: Mapping[Recipe, str] | None = None
) -> list[Series]:
    """One line for each eraser as it was asked for; what was screened stands beside it in dots.

    Args:
        results: of one task.
        rows: of one set.
        labels: of the erasers, where other sets are drawn beside it; else as these rows have them.
    """
    pairs = sorted(single(results, rows), key=lambda pair: pair[1].layers)
    series = []
    for key, name in (labels or _labels(results, rows)).items():
        mine = [(row, e) for row, e in pairs if recipe(e) == key]
        for screened in (False, True):
            own = [(row, e) for row, e in mine if (row.split == SCREENING) == screened]
            if own:
                layers, of_own = [e.layers[0] for _, e in own], [row for row, _ in own]
                drawn = (dots if screened else line)(name, layers, of_own, own[0][1].baseline)
                series.append(replace(drawn, tentative=screened))
    return series


def _labels(results: Results, rows: Sequence[Row]) -> dict[Recipe, str]:
    return eraser_labels([results.records[row.edit] for row in rows if row.edit in results.records])


def layer_panels(
    results: Results,
    rows: Sequence[Row],
    y_label: str,
    title: Callable[[Row], str],
    limits: tuple[float, float] | None = SHARE,
) -> list[Panel]:
    """A panel for each set; dashed is the unedited model.

    What was screened on validation data stands in the panel of the same set of test data.
    """
    panels, labels = [], _labels(results, rows)
    layers = [layer for _, e in single(results, rows) for layer in e.layers]
    covers = min(layers) - BASELINES, max(layers) + BASELINES
    for dataset in list(dict.fromkeys(dataset_label(row.dataset) for row in rows))[:MOST_SETS]:
        mine = [row for row in rows if dataset_label(row.dataset) == dataset]
        before = results.under(mine[0], UNEDITED)
        series = [] if before is None else [level(before)]
        series += by_layer(results, mine, labels)
        drawn = Panel(title(mine[0]), "layer", y_label, tuple(series), False, limits, covers)
        panels.append(drawn)
    return panels


def layer_figures(
    results: Results,
    metric: str,
    *,
    name: str,
    heading: str,
    y_label: str,
    title: Callable[[Row], str],
    about: Callable[[Row], bool] = lambda row: True,
    limits: tuple[float, float] | None = SHARE,
) -> list[Figure]:
    """A figure for each site at which edits at several layers were measured.

    Args:
        results: of one task.
        metric: the row metric.
        name: the figures' name, to which their site is added.
        heading: what the figures are called, before their site.
        y_label: the axis.
        title: a panel's, from a row of its set.
        about: which rows of the metric are drawn.
        limits: ends of the axis; None where panels fit their data.
    """
    rows, split = of_layers(results, metric)
    pairs = single(results, [row for row in rows if about(row)])
    figures = []
    for site in dict.fromkeys(e.sites[0] for _, e in pairs):
        mine = [(row, e) for row, e in pairs if e.sites[0] == site]
        if len({e.layers for _, e in mine}) < 2:
            continue
        panels = layer_panels(results, [row for row, _ in mine], y_label, title, limits)
        words = "One line for each eraser, with its rank or ranks and 95 % intervals"
        if any(row.split == SCREENING for row, _ in mine):
            words += (
                "; hollow dots were screened on few validation names only, with an arrow where "
                "they or their intervals go on beyond the axis"
            )
        dashed = any(s.kind == "level" for panel in panels for s in panel.series)
        figures.append(
            Figure(
                f"{name}_{site}",
                f"{heading}, {site} ({split} data)",
                tuple(panels),
                f"{words}; dashed is the unedited model." if dashed else f"{words}.",
            )
        )
    return figures
