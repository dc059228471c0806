"""The last lines of a command: what was saved, why nothing was, and the next command."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from countergen_edit.decisions.judgement import JUDGEMENT
from countergen_edit.edits import EditRecord
from countergen_edit.edits.checkpoints import Saved
from countergen_edit.reports.kept import best_record, recommended
from countergen_edit.reports.search import degradations_in_words, no_bias, share

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

ASKED = ("model", "axis", "data", "texts", "names", "groups", "seed")
"""Settings by which another command asks the same question."""


def about(saved: Saved) -> list[str]:
    """Where an edit was saved, how its logits compare after loading, and how to load it."""
    return [
        f"Saved ({saved.form}): {saved.folder}. In a fresh process its logits differ by at most "
        f"{saved.parity.max_difference:.2g}; the edit changes them by {saved.parity.effect:.2g}.",
        f"Load it: {_loading(saved)}. Compare: countergen-edit chat {saved.folder}",
    ]


def how_to_save(run: Run) -> list[str]:
    """The line that saves the best edit of each task that has one."""
    if run.config.get("limit"):
        return in_whole(run)
    return _saving(run, best_record, "Save it,")


def after_audit(run: Run) -> list[str]:
    """The line that keeps the edit that is recommended, or else the one that searches for one."""
    if run.config.get("limit"):
        return in_whole(run)
    if lines := _saving(run, recommended, "Save it,"):
        return lines
    changes = [change for r in run.results.of(JUDGEMENT) for change in r.detail["sets"].values()]
    if not run.results.is_unedited and not {*changes} - {
        "increased"
    }:  # there was no bias to change
        return ["Next, prompts of your own: countergen-edit check FILE"]
    asked = " ".join(shlex.quote(word) for word in _asked(run.manifest.get("command", ())))
    return [f"Next: countergen-edit debias {asked}".rstrip()]


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
    """That nothing was saved, with the budgets and the candidate that removes most."""
    if no_bias(run.results):
        return ["Nothing was saved. Give the groups more names, or use other prompts (data=)."]
    rows = [row for row in run.results.of("cost", "validation") if row.detail["front"]]
    lines = [f"Nothing was saved. Budgets: {degradations_in_words(run.budgets)}."]
    if rows:
        most = max(rows, key=lambda row: row.detail["removed"])
        lines.append(
            f"On validation data {run.results.label(most.edit)} removes most: "
            f"{share(most.detail['removed'])} of the bias, worse by "
            f"{degradations_in_words(most.detail['degradations'], most.detail.get('groups'))}."
        )
    return [*lines, "Next: wider budgets (cost.NAME.budget=…) or other erasers (eraser=gated)."]


def _loading(saved: Saved) -> str:
    trust = ", trust_remote_code=True" if saved.form == "carried" else ""
    return f'AutoModelForCausalLM.from_pretrained("{saved.folder}"{trust})'
