"""Whether an edit is one to keep, by what test data show of every set and of every cost.

Comes in: the rows of a study, and the edits that it tested. Goes out: a row `judgement` for each,
of which one edit at most is named. An edit does harm where it increases bias on a set, or costs a
hundred budgets; costs too much where any cost is beyond its budget; shows nothing where bias fell
on no set. What is left is recommended, and of several the one that validation data choose is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from countergen_edit.edits import NamedEdit
from countergen_edit.runs.choice import WRECK, choose, points, worse_by
from countergen_edit.runs.files import HARMFUL, JUDGEMENT, NOTHING, RECOMMENDED, TOO_DEAR
from countergen_edit.runs.run_folder import read_records
from countergen_edit.runs.study import Study
from countergen_edit.metrics.base import Change
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED, Row


def judgements(study: Study, edits: Sequence[NamedEdit]) -> list[Row]:
    """A row for each edit that was fitted, of what its test rows come to.

    Args:
        study: with the test rows of the unedited model and of every edit.
        edits: those that were fitted; their controls are found among what the run keeps.

    Returns:
        None where no bias was measured on test data.
    """
    rows = study.own_rows()
    results = Results(rows, read_records(study.folder.path))
    judged = [row for edit in edits if (row := _judgement(study, results, edit)) is not None]
    named = _named(study, [row.edit for row in judged if row.detail["word"] == RECOMMENDED])
    return [replace(row, detail=row.detail | {"named": row.edit == named}) for row in judged]


def word_for(changes: Sequence[Change], share: float) -> str:
    """What an edit is called.

    Args:
        changes: of each set's bias.
        share: of its budget that the worst cost takes.
    """
    if "increased" in changes or share >= WRECK:
        return HARMFUL
    if share > 1:
        return TOO_DEAR
    return RECOMMENDED if {"removed", "partly removed"} & {*changes} else NOTHING


def _judgement(study: Study, results: Results, edit: NamedEdit) -> Row | None:
    sets: dict[str, Change] = {}
    for metric in study.metrics:
        sets |= metric.changes(results, edit.record)
    if not sets:
        return None
    tested = [row for row in results.rows if row.split == "test"]
    before, after = ([r for r in tested if r.edit == id_] for id_ in (UNEDITED, edit.id))
    degradations, at_best = worse_by(study.costs, before, after)
    share = max((degradation.share for degradation in degradations.values()), default=0.0)
    detail = {
        "word": word_for([*sets.values()], share),
        "sets": sets,
        "degradations": {name: degradation.value for name, degradation in degradations.items()},
        "budgets": {name: degradation.budget for name, degradation in degradations.items()},
        "groups": {
            name: degradation.group
            for name, degradation in degradations.items()
            if degradation.group
        },
        "over": [name for name, degradation in degradations.items() if degradation.share > 1],
        "maybe": [
            name
            for name, degradation in degradations.items()
            if degradation.share > 1 >= at_best.get(name, degradation).share
        ],
    }
    [row] = study.marked([Row(JUDGEMENT, share, n=len(sets), detail=detail)], edit, "test")
    return replace(row, axis=study.task.axis.name, seed=study.seed)


def _named(study: Study, recommended: Sequence[str]) -> str | None:
    """Of several that validation data choose; none where they were not measured on these."""
    if len(recommended) < 2:
        return next(iter(recommended), None)
    known = points(study.own_rows(), "validation", study.costs)
    candidates = [point for point in known if point.edit in recommended]
    return choose(candidates).edit if candidates else None
