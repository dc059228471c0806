"""The result in words, all edits side by side, bias against cost, and every cost at length.

Comes in: the quantities of all metrics of a run. Goes out: the tabs that no metric makes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from countergen_edit.decisions.judgement import JUDGEMENT
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.base import Kind
from countergen_edit.metrics.results import Results, State
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.blocks import (
    Block,
    Cell,
    Figure,
    Fold,
    Number,
    Section,
    Table,
    Words,
)
from countergen_edit.reports.findings import in_words
from countergen_edit.reports.panels import Panel, Series, dots
from countergen_edit.reports.search import by_eraser, single
from countergen_edit.reports.verdict import edit_of
from countergen_edit.reports.views.base import Quantity, View
from countergen_edit.runs.folder import ORIGINAL

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

TRUTH = "planted"
KIND_TITLES: dict[Kind, str] = {"bias": "bias", "cost": "costs", "other": "other measures"}
MOST_AT_A_GLANCE = 4
"""Edits that one figure tells apart at a glance."""
GLANCED = ("bias", "cost", "other")
"""In this order metrics stand in it."""


def number(quantity: Quantity, row: Row | None) -> Number:
    """A row of a quantity as tables show it."""
    return Number.of(row, quantity.digits, percent=quantity.percent, signed=quantity.signed)


def overview(run: Run) -> Section | None:
    """The verdict, all test sets and costs before and after, and all findings in words."""
    split, quantities = measured(run)
    columns = [quantity for quantity in quantities if quantity.main]
    lines, sentences, results = run.verdict.lines, run.findings, in_words(run.results)
    blocks: list[Block] = [Words(lines, brief=True)] if lines else []
    blocks += at_a_glance(run.views, states(run))
    if columns:
        blocks.append(before_and_after(results, columns, listed(results), split))
    blocks += [] if run.results.is_unedited else in_costs(run, quantities)
    if sentences and sentences != lines:
        blocks.append(Fold("All findings in words", (Words(sentences),)))
    return Section("overview", "Overview", tuple(blocks)) if blocks else None


def states(run: Run) -> list[State]:
    """The unedited model, and under the edit that is named; under those shown where none is.

    Of a checkpoint that was held against the model that it was made of, these two.
    """
    results, original = run.results, run.original
    if original is not None and results.is_unedited:
        own = original.by_task().get(results.task, original)
        return [
            State(ORIGINAL, own.results, UNEDITED, baseline=True),
            State("this checkpoint", results),
        ]
    before = State(results.label(UNEDITED), results, UNEDITED, baseline=not results.is_unedited)
    named = [row.edit for row in results.of(JUDGEMENT) if row.detail["named"]]
    real = [edit.id for edit in results.shown if not edit.baseline]
    after = (named or real)[:MOST_AT_A_GLANCE]
    return [before, *(State(results.label(edit), results, edit) for edit in after)]


def at_a_glance(metrics: Sequence[View], told: Sequence[State]) -> list[Block]:
    """One figure of every metric that has something to show of all test data: bias, then costs."""
    ordered = sorted(metrics, key=lambda metric: GLANCED.index(metric.kind))
    panels = tuple(panel for metric in ordered for panel in metric.glance(told))
    if not panels:
        return []
    several = len(told) > 1
    title = "Before and after, on all test data" if several else "On all test data"
    note = f"Hollow is {told[0].name}. " if several else ""
    note += "Dots have 95 % intervals."
    return [Figure("glance", title, panels, note)]


def in_costs(run: Run, quantities: Collection[Quantity]) -> list[Block]:
    """Bias against cost: what was tested, and, folded away, all that was tried."""
    blocks: list[Block] = []
    every = listed(run.results)
    on_test = {run.results.label(edit): [edit] for edit in every}
    controls = {run.results.label(e) for e in every if run.results.is_reference(e)}
    if panels := against_costs(run.results, quantities, on_test, controls):
        words = "Best is low, where no bias is left, at the costs of the unedited model."
        blocks.append(Figure("pareto", "Bias against cost, on test data", panels, words))
    erasers = by_eraser(as_tested(run.results))
    groups = {label: [e.id for e in edits] for label, edits in erasers.items()}
    controls = {label for label, edits in erasers.items() if edits[0].baseline}
    if panels := against_costs(run.results, run.quantities("validation"), groups, controls):
        words = "One point for every edit that was tried; what test data show was chosen here."
        title = "Bias against cost, on validation data"
        figure = Figure("pareto_validation", title, panels, words)
        blocks.append(Fold("Every edit that was tried, on validation data", (figure,)))
    return blocks


def as_tested(results: Results) -> list[EditRecord]:
    """Edits fitted as one, erasers in the order of test data: of one colour in both figures."""
    tested = dict.fromkeys(
        results.records[edit].eraser for edit in results.compared if edit in results.records
    )
    place = {eraser: i for i, eraser in enumerate(tested)}
    tried = [record for record in results.records.values() if single(record)]
    return sorted(tried, key=lambda record: place.get(record.eraser, len(place)))


def listed(results: Results) -> list[str]:
    """Ids of the edits that are compared and of what stands beside them; controls come last."""
    ids = [*results.compared, *(edit.id for edit in results.baselines)]
    return sorted(ids, key=lambda edit: edit != UNEDITED and results.is_reference(edit))


def measured(run: Run) -> tuple[str, list[Quantity]]:
    """The figures of test data; of a search that tested nothing, those of validation data."""
    if quantities := run.quantities():
        return "test", quantities
    return "validation", run.quantities("validation") if run.results.is_unedited else []


def summary(run: Run) -> Table | None:
    """The table of all sets and costs, with one control: that of the edit of the verdict."""
    about, edit = in_words(run.results), edit_of(run.results)
    control = None if edit is None else about.baseline_of(edit)
    kept = [e for e in listed(about) if e == UNEDITED or not about.records[e].baseline]
    kept += [control.id] if control and control.id not in kept else []
    split, quantities = measured(run)
    columns = [quantity for quantity in quantities if quantity.main]
    return before_and_after(about, columns, kept, split) if columns else None


def before_and_after(
    results: Results, quantities: Collection[Quantity], edits: Sequence[str], split: str
) -> Table:
    """A row for each main quantity, a column for each edit; the planted truth where it is known.

    A place that all edits share stands in the title.
    """
    known = any(quantity.truth for quantity in quantities)
    rows: list[tuple[Cell, ...]] = []
    for q in quantities:
        truth = [number(q, q.truth) if q.truth else ""] if known else []
        cells = [number(q, q.rows[edit]) if edit in q.rows else "" for edit in edits]
        kind = q.axis if q.of else KIND_TITLES[q.kind]
        rows.append((kind, q.of or q.title, *truth, *cells))
    labels = [results.label(edit) for edit in edits]
    places = {results.label(edit).partition("@")[2] for edit in edits if edit != UNEDITED}
    place = places.pop() if len(places) == 1 else ""
    columns = ("", "set", *([TRUTH] if known else []))
    columns += tuple(label.removesuffix(f"@{place}") for label in labels)
    title = f"All sets and costs on {split} data{f', edits at {place}' if place else ''}"
    note = "Intervals are 95 %, over names and templates."
    return Table("before_and_after", title, columns, tuple(rows), note, grouped=True)


def against_costs(
    results: Results,
    quantities: Collection[Quantity],
    groups: Mapping[str, Collection[str]],
    controls: Collection[str],
) -> tuple[Panel, ...]:
    """The first bias quantity against each cost that is drawn; empty where there is none.

    Args:
        results: of one task.
        quantities: of one split.
        groups: what a series is called → ids of its edits; a single one has its interval.
        controls: the series that others are held against.
    """
    drawn = [quantity for quantity in quantities if quantity.drawn]
    bias = next((quantity for quantity in drawn if quantity.kind == "bias"), None)
    if bias is None:
        return ()
    panels = []
    for cost in (quantity for quantity in drawn if quantity.kind == "cost"):
        series = [
            _points(results, name, bias, cost, edits, name in controls)
            for name, edits in groups.items()
        ]
        series = [points for points in series if points.x]
        if series:
            label = bias.axis or bias.title
            limits, covers = bias.limits, cost.covers
            panels.append(
                Panel(
                    cost.title,
                    cost.axis or cost.title,
                    label,
                    tuple(series),
                    limits=limits,
                    covers=covers,
                )
            )
    return tuple(panels)


def _points(
    results: Results,
    name: str,
    bias: Quantity,
    cost: Quantity,
    edits: Collection[str],
    control: bool,
) -> Series:
    x, y, lo, hi, tips = [], [], [], [], []
    for edit in edits:
        paid, left = cost.rows.get(edit), bias.rows.get(edit)
        if paid is None or left is None or paid.value is None or left.value is None:
            continue
        x.append(paid.value)
        y.append(left.value)
        lo.append(left.value if left.lo is None else left.lo)
        hi.append(left.value if left.hi is None else left.hi)
        tips.append(
            f"{results.label(edit)}: {bias.axis or bias.title} {number(bias, left).text}, "
            f"{cost.axis or cost.title} {number(cost, paid).text}"
        )
    alone = len(edits) == 1
    ends = (tuple(lo), tuple(hi)) if alone else ((), ())
    return Series(name, tuple(x), tuple(y), *ends, "dots", control, tuple(tips))


def costs(run: Run) -> Section | None:
    """What each edit costs by every metric that is a cost; nothing where there is no edit."""
    results = run.results
    quantities = [quantity for quantity in run.quantities() if quantity.kind == "cost"]
    if not quantities or results.is_unedited:
        return None
    panels = tuple(
        Panel(q.title, q.axis or q.title, "", edit_dots(results, q), True, q.limits, q.covers)
        for q in quantities
        if q.drawn
    )
    lines: list[tuple[Cell, ...]] = []
    for q in quantities:
        cells = [number(q, q.rows[e]) if e in q.rows else "" for e in results.compared]
        lines.append((q.title, str(q.rows[UNEDITED].n) if UNEDITED in q.rows else "", *cells))
    columns = ("cost", "n", *map(results.label, results.compared))
    blocks: list[Block] = []
    if panels:
        words = "Dots are figures with 95 % intervals. Hollow is what an edit is held against."
        blocks.append(Figure("costs", "What each edit costs", panels, words))
    blocks.append(Table("costs", "Costs in numbers", columns, tuple(lines), brief=True))
    return Section("costs", "Costs", tuple(blocks))


def edit_dots(results: Results, quantity: Quantity) -> tuple[Series, ...]:
    """One dot for each compared edit."""
    rows = {e: quantity.rows[e] for e in results.compared if e in quantity.rows}
    return tuple(
        dots(results.label(e), [results.label(e)], [row], results.is_reference(e))
        for e, row in rows.items()
        if row.value is not None
    )
