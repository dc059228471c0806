"""The verdict of a run in at most six lines: bias, recommended edit, removal, cost, what remains.

Every line is computed from all test rows: the bias of each set, the judgement of each edit, and the
change, the costs and the remaining differences under one edit. `findings` has all sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from countergen_edit.decisions.judgement import JUDGEMENT
from countergen_edit.edits import EditRecord
from countergen_edit.metrics.results import Results
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.reports.findings import (
    advice,
    costs_of,
    not_tried,
    of_quick_try,
    unfitted,
    warnings,
)
from countergen_edit.reports.search import choice

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

MOST_LINES = 6
"""Two more say how to save the edit and where the page is."""


@dataclass(frozen=True)
class Verdict:
    """At most six lines; printed, one below the other."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def verdict(run: Run) -> Verdict:
    """The verdict of a run; of a run of several tasks the first lines of each."""
    parts = [_of_task(part) for part in run.by_task().values()]
    first = [*of_quick_try(run), *warnings(run)]
    each = max(1, (MOST_LINES - len(first)) // len(parts))
    lines = dict.fromkeys(line for part in parts for line in part[:each])
    return Verdict((*first, *lines)[:MOST_LINES])


def edit_of(results: Results) -> EditRecord | None:
    """The edit that a verdict is about: the recommended, the chosen, or else the first one."""
    named = [row.edit for row in results.of(JUDGEMENT) if row.detail["named"]]
    if named:
        return results.records.get(named[0])
    real = [edit for edit in results.shown if not edit.baseline]
    return results.chosen if results.chosen in results.edits else next(iter(real), None)


def _of_task(run: Run) -> list[str]:
    edit = edit_of(run.results)
    about = run.results if edit is None else _under(run.results, edit)
    biases = [m for m in run.views if m.kind == "bias" and m.headline(about)]
    others = [metric for metric in run.views if metric.kind != "bias"]
    lines = [line for metric in biases for line in metric.headline(about)]
    lines += [*advice(run.results), *unfitted(run.results), *not_tried(run.results)]
    if edit is None or not biases:
        return lines + [line for metric in others for line in metric.headline(about)]
    chosen = choice(run)[:1] if run.results.of("cost", "validation") else []
    lines += [*chosen, *(line for m in biases if (line := m.outcome(about, edit)))]
    if not chosen and (cost := costs_of(others, about, edit)):
        lines.append(f"Cost of {edit.name_in_text}: {cost}.")
    if left := [part for metric in others for part in metric.remaining(about, edit)]:
        lines.append(f"Remaining under {edit.name_in_text}: {'; '.join(left)}.")
    return lines


def _under(results: Results, edit: EditRecord) -> Results:
    """The results of the unedited model, of one edit and of its control."""
    control = results.baseline_of(edit)
    return results.only(edits=[UNEDITED, edit.id, *([control.id] if control else [])])
