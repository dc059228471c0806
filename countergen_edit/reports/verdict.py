"""What a run found, in sentences: what was biased, what is left of it, what it cost, how sure.

Comes in: a run. Goes out: what its metrics say, in one order. Of a search, what they say of the
chosen edit and its control; of a run of several tasks, task by task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from countergen_edit.edits import EditRecord
from countergen_edit.experiments.files import FAILED, JUDGEMENT, RECOMMENDED, quick_try
from countergen_edit.metrics.base import Change, Metric
from countergen_edit.metrics.results import MOST_EDITS, Results
from countergen_edit.metrics.rows import UNEDITED, Row
from countergen_edit.reports.search import choice

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run


MOST_SETS = 4
"""Sets that a sentence lists; the tables have them all."""


@dataclass(frozen=True)
class Verdict:
    """What was found; printed, one sentence on each line."""

    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def verdict(run: Run) -> Verdict:
    """What the metrics of a run say; what is the same of several tasks is said once."""
    sentences = [s for part in run.by_task().values() for s in _of_task(part)]
    sentences[:0] = of_quick_try(run)
    sentences += [
        f"Not shown: {name}, as its class is not at hand: {why}"
        for name, why in run.unshown.items()
    ]
    return Verdict(tuple(dict.fromkeys(sentences)))


def of_quick_try(run: Run) -> list[str]:
    """That the run asked too little to be signed by anyone; nothing of a run that asked all."""
    limit = run.config.get("limit")
    return [quick_try(limit)] if limit else []


def _of_task(run: Run) -> list[str]:
    about = replace(run, results=in_words(run.results))
    results = about.results
    biases = [metric for metric in run.metrics if metric.kind == "bias"]
    others = [metric for metric in run.metrics if metric.kind != "bias"]
    sentences = [*advice(results), *unfitted(run.results)]
    paid: set[str] = set()
    for bias in biases:
        sentences += bias.sentences(results)
        for edit in results.shown:
            outcome = bias.outcome(results, edit)
            if outcome and edit.id not in paid and (cost := costs_of(others, results, edit)):
                outcome = f"{outcome} Cost: {cost}."
                paid.add(edit.id)
            sentences += [outcome] if outcome else []
        for sentence, named in bias.beside(results):
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
    sentences = [f"Recommended: {_about(results, row)}. {_does(row)}" for row in named]
    if rest:
        begin = "Within the budgets too" if named else "Recommended, and none chosen among them"
        sentences.append(f"{begin}: {', '.join(_about(results, row) for row in rest)}.")
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


def _about(results: Results, row: Row) -> str:
    return results.records[row.edit].called if row.edit in results.records else row.edit


def _does(row: Row) -> str:
    """What a recommended edit did on the sets that have a bias, and what it costs."""
    by_change: dict[str, list[str]] = {change: [] for change in get_args(Change)}
    for name, change in row.detail["sets"].items():
        by_change[change].append(name)
    parts = [f"{change} on {few(names)}" for change, names in by_change.items() if names]
    cost = " Every cost is within its budget." if row.detail["harms"] else " No cost was measured."
    return f"Bias: {'; '.join(parts)}.{cost}"


def _why(row: Row) -> str:
    """What is wrong with an edit that is not recommended."""
    detail = row.detail
    grown = [name for name, change in detail["sets"].items() if change == "increased"]
    reasons = [f"bias increased on {few(grown)}"] if grown else []
    reasons += [
        f"{_of_group(detail, name)} worse by {detail['harms'][name]:.2g}, "
        f"budget {detail['budgets'][name]:.2g}"
        + (", which its interval reaches" if name in detail["maybe"] else "")
        for name in detail["over"]
    ]
    return f" ({'; '.join(reasons)})" if reasons else ""


def _of_group(detail: Mapping[str, Any], name: str) -> str:
    """A cost, with the group on which it is largest."""
    group = detail.get("groups", {}).get(name)
    return f"{name} of {group}" if group else name


def few(names: Sequence[str], between: str = ", ") -> str:
    """The first names of many, and how many more there are."""
    more = [f"{len(names) - MOST_SETS} more"] if len(names) > MOST_SETS else []
    return between.join([*names[:MOST_SETS], *more])


def costs_of(metrics: Iterable[type[Metric]], results: Results, edit: EditRecord) -> str:
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
    others = [*([control.id] if control else []), *(e.id for e in results.beside)]
    return results.only(edits=[UNEDITED, edit.id, *others])
