"""What a command that keeps an edit says at its end, in plain words, and what one might do next.

Comes in: a run, and what was saved of it. Goes out: lines for the terminal.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from countergen_edit.checkpoints import Saved
from countergen_edit.edits import EditRecord
from countergen_edit.experiments.files import JUDGEMENT
from countergen_edit.metrics.blocks import Number
from countergen_edit.metrics.rows import UNEDITED
from countergen_edit.reports.kept import best_record, recommended
from countergen_edit.reports.search import harms_in_words, no_bias, share
from countergen_edit.reports.verdict import of_quick_try

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

ASKED = ("model", "axis", "data", "texts", "names", "groups", "seed")
"""Settings by which another command asks the same question."""
MOST_FRONT = 8
"""Most edits of the front that are listed."""


def about(saved: Saved) -> list[str]:
    """What was saved, how well it was proven, and how to load it."""
    return [
        f"Saved ({saved.form}): {saved.folder}",
        f"Reloaded in a fresh process, its logits differ by at most "
        f"{saved.parity.max_difference:.2g}; the edit changes them by {saved.parity.effect:.2g}.",
        f"Load it anywhere: {_loading(saved)}",
        f"Talk to it: countergen-edit chat {saved.folder}",
    ]


def summary(run: Run, edit: EditRecord, saved: Saved) -> list[str]:
    """What is left of the bias, what that cost beside what was tolerated, and where it lies."""
    lines = of_quick_try(run)
    if left := _changes(run, edit, "bias"):
        lines.append(
            f"What is left of the bias: {left}, on names and wordings that nothing was fitted or "
            "chosen on."
        )
    if paid := _changes(run, edit, "cost"):
        budgets = harms_in_words(run.budgets)
        tolerated = f" Tolerated for the worse, on validation data: {budgets}." if budgets else ""
        lines.append(f"What it cost: {paid}.{tolerated}")
    places = ", ".join(map(str, edit.places))
    lines.append(f"The edit: {edit.eraser}, rank {edit.rank}, {places}.")
    lines.append(f"Saved ({saved.form}), and proven equal in a fresh process: {saved.folder}")
    return lines


def next_steps(run: Run, saved: Saved) -> list[str]:
    """Three things one might do now."""
    return [
        "Next:",
        f"  1. Talk to both models: countergen-edit chat {saved.folder}",
        f"  2. Use it: {_loading(saved)}",
        f"  3. Look at the audit: {run.path}/report.html; then measure it on prompts of your own: "
        f"countergen-edit audit model={saved.folder} data=pairs.jsonl eraser=none",
    ]


def how_to_save(run: Run) -> list[str]:
    """The line that saves the best edit of each task that has one."""
    if run.config.get("limit"):
        return in_whole(run)
    return _saving(run, best_record, "Save")


def after_audit(run: Run) -> list[str]:
    """The line that keeps the edit that is recommended, or else the one that searches for one."""
    if run.config.get("limit"):
        return in_whole(run)
    if lines := _saving(run, recommended, "Next, keep"):
        return lines
    changes = [change for r in run.results.of(JUDGEMENT) for change in r.detail["sets"].values()]
    if not run.results.is_unedited and not {*changes} - {
        "increased"
    }:  # there was no bias to change
        return ["Next, ask by prompts of your own: countergen-edit check FILE"]
    asked = " ".join(shlex.quote(word) for word in _asked(run.manifest.get("command", ())))
    return [f"Next, search every layer within budgets: countergen-edit debias {asked}".rstrip()]


def _saving(run: Run, which: Callable[[Run], EditRecord | None], verb: str) -> list[str]:
    """The line that saves an edit of each task that has one to save."""
    parts = run.by_task()
    task = {name: f" run_task={name}" if len(parts) > 1 else "" for name in parts}
    return [
        f"{verb} {edit.label}: countergen-edit edit run={run.path}{task[name]} save=DIR"
        for name, part in parts.items()
        if (edit := which(part)) is not None
    ]


def in_whole(run: Run) -> list[str]:
    """The line that runs a quick try on all prompts."""
    first, *words = run.manifest.get("command", ("countergen-edit",))
    kept = (word for word in words if word.partition("=")[0] not in ("limit", "run_dir", "save"))
    return [f"Next, on every prompt: {first} {' '.join(map(shlex.quote, kept))}"]


def _asked(command: Iterable[str]) -> list[str]:
    """Of a command's words those that say what is measured on what."""
    return [word for word in command if word.partition("=")[0].partition(".")[0] in ASKED]


def why_nothing(run: Run) -> str:
    """Why a search has no edit to save, in one line."""
    if without := no_bias(run.results):
        return f"{without}; nothing was saved"
    chosen = [r for r in run.results.of("cost", "validation") if r.detail["chosen"]]
    if not chosen:
        return "no edit could be fitted; nothing was saved"
    if chosen[0].detail["affordable"]:
        return "no edit within the budgets is shown to remove any bias; nothing was saved"
    return "no edit fits the budgets; nothing was saved"


def nothing_fits(run: Run) -> list[str]:
    """That no edit is worth saving, and the edits that come nearest; none where no bias is."""
    if no_bias(run.results):
        return ["Nothing was saved. Give the groups more names, or ask other prompts (data=)."]
    rows = [r for r in run.results.of("cost", "validation") if r.detail["front"]]
    lines = [
        f"Budgets: {harms_in_words(run.budgets)}. No other edit removes more for less than these, "
        "on validation data:"
    ]
    for row in sorted(rows, key=lambda r: r.value or 0.0)[:MOST_FRONT]:
        lines.append(
            f"  {run.results.label(row.edit)}: {share(row.detail['removed'])} of the bias removed; "
            f"worse by {harms_in_words(row.detail['harms'])}"
        )
    return [*lines, "Nothing was saved. Widen a budget, or try other erasers: eraser=[…]."]


def _changes(run: Run, edit: EditRecord, kind: str) -> str:
    """The main quantities of a kind before and after an edit."""
    changes = []
    for quantity in run.quantities():
        after = quantity.rows.get(edit.id)
        if quantity.kind != kind or not quantity.main or after is None:
            continue
        look = {"percent": quantity.percent, "signed": quantity.signed}
        before = quantity.rows.get(UNEDITED)
        start = f"{Number.of(before, quantity.digits, **look).text} → " if before else ""
        end = Number.of(after, quantity.digits, **look).text
        changes.append(f"{quantity.title} {start}{end}")
    return ", ".join(changes)


def _loading(saved: Saved) -> str:
    trust = ", trust_remote_code=True" if saved.form == "carried" else ""
    return f'AutoModelForCausalLM.from_pretrained("{saved.folder}"{trust})'
