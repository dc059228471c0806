"""All findings of a run in sentences: bias, what each edit removed, what it cost, how sure.

Of a search, the sentences are about the chosen edit and its control; of a run of several tasks they
follow task by task. `verdict` has the few that a terminal prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from countergen_edit.decisions.judgement import JUDGEMENT, RECOMMENDED
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import MOST_EDITS, Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.search import breaches, choice, no_bias
from countergen_edit.reports.views.base import View
from countergen_edit.runs.folder import FAILED, quick_try

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run


MOST_SETS = 4
"""Sets that a sentence lists; the tables have them all."""


def findings(run: Run) -> tuple[str, ...]:
    """Every sentence of the metrics of a run; one that holds for several tasks stands once."""
    sentences = [s for part in run.by_task().values() for s in _of_task(part)]
    sentences[:0] = of_quick_try(run)
    sentences += warnings(run)
    sentences += [
        f"Not shown: {name}, as its class is not at hand: {why}"
        for name, why in run.unshown.items()
    ]
    return tuple(dict.fromkeys(sentences))


def of_quick_try(run: Run) -> list[str]:
    """That the run asked too little to be signed by anyone; nothing of a run that asked all."""
    limit = run.config.get("limit")
    return [quick_try(limit)] if limit else []


def warnings(run: Run) -> list[str]:
    """What makes the figures of a run doubtful, as it was said when the run began."""
    return [str(warning) for warning in run.manifest.get("warnings", ())]


def _of_task(run: Run) -> list[str]:
    about = replace(run, results=in_words(run.results))
    results = about.results
    biases = [metric for metric in run.views if metric.kind == "bias"]
    others = [metric for metric in run.views if metric.kind != "bias"]
    sentences = [*advice(results), *unfitted(run.results), *not_tried(run.results)]
    paid: set[str] = set()
    for bias in biases:
        sentences += bias.sentences(results)
        for edit in results.shown:
            outcome = bias.outcome(results, edit)
            if outcome and edit.id not in paid and (cost := costs_of(others, results, edit)):
                outcome = f"{outcome} Cost: {cost}."
                paid.add(edit.id)
            sentences += [outcome] if outcome else []
        for sentence, named in bias.baselines(results):
            costs = [(edit.label, costs_of(others, results, edit)) for edit in named]
            each = "; ".join(f"{label}: {cost}" for label, cost in costs if cost)
            sentences.append(f"{sentence} Cost: {each}." if each else sentence)
    said = [sentence for metric in others for sentence in metric.sentences(results)]
    # What was found comes before how it was chosen, whatever it was measured by.
    sentences += [*choice(run), *said] if sentences else [*said, *choice(run)]
    for metric in (*biases, *others):
        sentences += metric.caveats(results)
    return sentences


def advice(results: Results) -> list[str]:
    """Which edit to keep, or why none is; nothing where none was judged."""
    rows = results.of(JUDGEMENT)
    good = [row for row in rows if row.detail["word"] == RECOMMENDED]
    named = [row for row in good if row.detail["named"]]
    rest = [row for row in good if row not in named]
    bad = "; ".join(
        f"{_about(results, r)} {r.detail['word']}{_why(r)}" for r in rows if r not in good
    )
    if not rows:
        return []
    if not good:
        return [f"No edit is recommended: {bad}."]
    others = ", ".join(_about(results, row) for row in rest)
    if named:
        also = f" Within the budgets too: {others}." if rest else ""
        sentences = [f"Recommended: {_about(results, row)}. {_does(row)}{also}" for row in named]
    else:
        sentences = [f"Recommended, and none chosen among them: {others}."]
    return [*sentences, f"Not recommended: {bad}."] if bad else sentences


def unfitted(results: Results) -> list[str]:
    """Which erasers gave no edit at all, with the first reason of each."""
    failed: dict[str, str] = {}
    for row in results.rows:
        if row.metric == FAILED:
            failed.setdefault(row.eraser, row.detail["error"])
    fitted = {row.eraser for row in results.rows if row.metric != FAILED}
    return [
        f"Not fitted: {eraser}: {error}."
        for eraser, error in failed.items()
        if eraser not in fitted
    ]


def not_tried(results: Results) -> list[str]:
    """Why a search fitted no edit at all; nothing where it fitted one."""
    reason = no_bias(results) if results.is_unedited else ""
    return [f"No edit was fitted: {reason}."] if reason else []


def _about(results: Results, row: Row) -> str:
    return results.records[row.edit].name_in_text if row.edit in results.records else row.edit


def _does(row: Row) -> str:
    """That a recommended edit keeps within the budgets, or that no cost was measured."""
    return (
        "Every cost is within its budget."
        if row.detail["degradations"]
        else "No cost was measured."
    )


def _why(row: Row) -> str:
    """What is wrong with an edit that is not recommended."""
    detail = row.detail
    grown = [name for name, change in detail["sets"].items() if change == "increased"]
    reasons = [f"bias increased on {few(grown)}"] if grown else []
    reasons += breaches(detail, detail["budgets"])
    return f" ({'; '.join(reasons)})" if reasons else ""


def few(names: Sequence[str], between: str = ", ") -> str:
    """The first names of many, and how many more there are."""
    more = [f"{len(names) - MOST_SETS} more"] if len(names) > MOST_SETS else []
    return between.join([*names[:MOST_SETS], *more])


def costs_of(metrics: Iterable[View], results: Results, edit: EditRecord) -> str:
    """What an edit cost by each metric that is a cost, as one part of a sentence."""
    costs = (m.outcome(results, edit) for m in metrics if m.kind == "cost")
    return ", ".join(filter(None, costs))


def in_words(results: Results) -> Results:
    """The results that words are made of: of a search, or of very many edits, those of one."""
    parts = results.by_task()
    if len(parts) > 1:
        about = {task: in_words(part) for task, part in parts.items()}
        if all(about[task] is part for task, part in parts.items()):
            return results
        rows = [row for part in about.values() for row in part.rows]
        return Results(rows, results.records, results.folder, results.task)
    edits = [edit for edit in results.edits if not edit.baseline]
    chosen = results.chosen if results.chosen in edits or not edits else None
    if chosen is None and len(edits) <= MOST_EDITS:
        return results
    edit = chosen or results.shown[0]
    control = results.baseline_of(edit)
    others = [*([control.id] if control else []), *(e.id for e in results.baselines)]
    return results.only(edits=[UNEDITED, edit.id, *others])
