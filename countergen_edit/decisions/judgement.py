"""Whether an edit should be kept, by the test rows of every set and cost.

An edit does harm if it increases bias on a set or costs a hundred budgets; it costs too much if a
cost exceeds its budget; it shows nothing if it removes bias on no set. All others are recommended;
of several, the one that validation data select is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from countergen_edit.decisions import HARMFUL, JUDGEMENT, NOTHING, OVER_BUDGET, RECOMMENDED
from countergen_edit.decisions.selection import (
    MAX_COST_SHARE,
    Point,
    choose,
    points,
    worse_by,
    worthwhile,
)
from countergen_edit.decisions.significance import classified, has_significant_bias
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.base import Change, Cost
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row, set_label


def judgements(
    rows: Sequence[Row],
    records: Mapping[str, EditRecord],
    edits: Sequence[str],
    costs: Sequence[Cost],
) -> list[Row]:
    """A row `judgement` for each edit of those ids; none where no bias was measured on test data.

    `rows` are of one task: of the unedited model, the edits and their controls.
    """
    results = Results(rows, records)
    judged = [row for edit in edits if (row := _judgement(results, records[edit], costs))]
    named = _named(rows, [row.edit for row in judged if row.detail["word"] == RECOMMENDED], costs)
    return [replace(row, detail=row.detail | {"named": row.edit == named}) for row in judged]


def word_for(changes: Sequence[Change], share: float) -> str:
    """The judgement, from the change on each set and the largest share of a budget."""
    if "increased" in changes or share >= MAX_COST_SHARE:
        return HARMFUL
    if share > 1:
        return OVER_BUDGET
    return RECOMMENDED if {"removed", "partly removed"} & {*changes} else NOTHING


def recommended(results: Results) -> EditRecord | None:
    """The edit that a run of one task recommends: the one that test data name.

    Where they show no bias to judge an edit by, the one that a search selected on validation data.
    """
    if rows := results.of(JUDGEMENT):
        rows = [row for row in rows if row.detail["named"]]
    elif has_significant_bias(results.rows):
        rows = [r for r in results.of("cost", "validation") if r.detail["chosen"] and worthwhile(r)]
    return results.records.get(rows[0].edit) if rows else None


def selected(results: Results) -> EditRecord | None:
    """The edit that a run is about: the recommended, else the chosen, else the first."""
    real = (edit for edit in results.shown if not edit.baseline)
    chosen = results.chosen if results.chosen in results.edits else next(real, None)
    return recommended(results) or chosen


def _judgement(results: Results, edit: EditRecord, costs: Sequence[Cost]) -> Row | None:
    sets = {set_label(row): change for row, change in classified(results, edit.id)}
    if not sets:
        return None
    tested = [row for row in results.rows if row.split == "test"]
    before, after = ([r for r in tested if r.edit == id_] for id_ in (UNEDITED, edit.id))
    degradations, at_best = worse_by(costs, before, after)
    point = Point(edit.id, 0.0, degradations)
    best = {**degradations, **at_best}
    detail = {
        "word": word_for([*sets.values()], point.cost),
        "sets": sets,
        "degradations": point.detail["degradations"],
        "budgets": {name: d.budget for name, d in degradations.items()},
        "groups": point.detail["groups"],
        "over": point.over,
        "maybe": [name for name in point.over if best[name].share <= 1],
    }
    about = {"axis": tested[0].axis, "task": tested[0].task, "seed": tested[0].seed}
    columns = {**about, **edit.columns, "split": "test", "n": len(sets), "detail": detail}
    return Row.of(JUDGEMENT, point.cost, **columns)


def _named(rows: Sequence[Row], recommended: Sequence[str], costs: Sequence[Cost]) -> str | None:
    """Of several, the one that validation data select; None where they were not measured there."""
    if len(recommended) < 2:
        return next(iter(recommended), None)
    candidates = [p for p in points(rows, "validation", costs) if p.edit in recommended]
    return choose(candidates).edit if candidates else None
