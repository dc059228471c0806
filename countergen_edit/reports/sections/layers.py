"""R by layer, eraser and rank (CounterGen, Figures 2 and 3), and each fit's certificate."""

from __future__ import annotations

from collections.abc import Sequence

from countergen_edit.data.axis import Split
from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Block, Cell, Figure, Number, Section, Table
from countergen_edit.reports.figures.panels import Panel, Series
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import level, line, set_label
from countergen_edit.reports.sweep_table import asked, eraser_labels, site_of

MOST_SETS = 9
"""Sets that get a panel of their own."""
SHARE = (0.0, 1.03)
"""Ends of the axis of what lies between 0 and 1, so that panels can be compared."""
PROBES = {"linear": "linear probe", "nonlinear": "non-linear probe"}


def layers(run: Run) -> Section | None:
    """What an edit at each layer leaves; nothing where a run has edits at one layer only."""
    results = run.results
    blocks: list[Block] = []
    split: Split = "test" if results.of("bias_removed") else "validation"
    rows = [r for r in results.of("mean_abs_r", split) if r.eraser and r.layer is not None]
    rows = [r for r in rows if " + " not in r.edit]
    for site in dict.fromkeys(site_of(r) for r in rows):
        mine = [r for r in rows if site_of(r) == site]
        if len({r.layer for r in mine}) > 1:
            blocks.append(_figure(results, mine, site, split))
    blocks += _probes(results)
    if (table := _certificates(results)) is not None:
        blocks.append(table)
    return Section("layers", "Layers and erasers", tuple(blocks)) if blocks else None


def _figure(results: Results, rows: Sequence[Row], site: str, split: Split) -> Figure:
    panels = []
    for dataset in list(dict.fromkeys(r.dataset for r in rows))[:MOST_SETS]:
        mine = [r for r in rows if r.dataset == dataset]
        before = results.under(mine[0], "none")
        series = [] if before is None else [level(before)]
        series += by_layer(mine)
        panels.append(Panel(set_label(mine[0]), "layer", "mean |R|", tuple(series), limits=SHARE))
    kept = [r for r in results.of("agreement", split) if r.eraser and r.group_b]
    kept = [r for r in kept if site_of(r) == site and r.layer is not None and " + " not in r.edit]
    if kept:
        before = results.under(kept[0], "none")
        lines = [*([] if before is None else [level(before)]), *by_layer(kept)]
        panels.append(
            Panel("agreement, both groups", "layer", "P(right form)", tuple(lines), limits=SHARE)
        )
    words = "One line for each eraser, with its rank or ranks and 95 % intervals"
    dashed = any(s.kind == "level" for panel in panels for s in panel.series)
    return Figure(
        f"layers_{site.replace(', ', '_')}",
        f"Bias left by an edit at each layer, {site} ({split} data)",
        tuple(panels),
        f"{words}; dashed is the model as it came." if dashed else f"{words}.",
    )


def by_layer(rows: Sequence[Row]) -> list[Series]:
    """One line for each eraser as it was asked for; its rank may differ by layer."""
    series = []
    for key, name in eraser_labels(rows).items():
        mine = sorted((r for r in rows if asked(r) == key), key=lambda r: r.layer or 0)
        at = [r.layer or 0 for r in mine]
        series.append(line(name, at, mine, baseline=mine[0].is_baseline))
    return series


def _probes(results: Results) -> list[Figure]:
    panels = []
    for kind in PROBES:
        rows = [
            r for r in results.of(f"{kind}_probe_accuracy", "validation") if r.layer is not None
        ]
        rows = [r for r in rows if site_of(r) == site_of(rows[0])]
        before = [
            r
            for r in results.of(f"{kind}_probe_accuracy_before", "validation")
            if rows and r.eraser == rows[0].eraser and site_of(r) == site_of(rows[0])
        ]
        if len({r.layer for r in rows}) < 2:
            continue
        once = {r.layer or 0: r for r in before}
        first = [line("before", list(once), list(once.values()), baseline=True)]
        panels.append(
            Panel(
                PROBES[kind], "layer", "held-out accuracy", (*first, *by_layer(rows)), limits=SHARE
            )
        )
    if not panels:
        return []
    words = "Accuracy of probes on names they were not fitted on; the majority class is chance."
    return [Figure("probes", "Can a probe still tell the groups apart?", tuple(panels), words)]


def _certificates(results: Results) -> Table | None:
    rows = results.of("linear_probe_accuracy", "validation")
    if not rows:
        return None
    lines: list[tuple[Cell, ...]] = []
    for row in rows:

        def of(metric: str, row: Row = row) -> Number:
            return Number.of(results.under(row, row.edit, metric))

        guaranteed = row.detail.get("guaranteed")
        reason = str(row.detail.get("reason") or "")
        lines.append(
            (
                row.edit,
                of("linear_probe_accuracy_before"),
                of("linear_probe_accuracy"),
                of("nonlinear_probe_accuracy_before"),
                of("nonlinear_probe_accuracy"),
                of("probe_majority_rate"),
                of("variance_removed"),
                "" if guaranteed is None else "yes" if guaranteed else f"no: {reason}",
            )
        )
    return Table(
        "certificates",
        "Certificates",
        (
            "edit",
            "linear before",
            "linear after",
            "non-linear before",
            "non-linear after",
            "majority",
            "variance removed",
            "no linear probe can do better than chance on the fitted data",
        ),
        tuple(lines),
        "Accuracies of probes on held-out names.",
        searchable=len(lines) > 12,
    )
