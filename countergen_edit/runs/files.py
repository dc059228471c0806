"""Names of the files of a run, without an import of a model library."""

from __future__ import annotations

from pathlib import Path

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import LOCK

CONFIG = "config.yaml"
MANIFEST = "manifest.json"
RESULTS = "results.jsonl"
PROGRESS = "progress.jsonl"
ORIGINAL = "original"
"""Folder of the run of an audited checkpoint's original model."""
EDITS = "edits"
"""Folder of the edits, each under its id."""
DISTILLATION = "distillation"
"""Folder of states of distillations, each under the id of its edit."""
SCORES_FOLDER = "scores"
"""Folder of the scores of the unedited model."""
RATINGS = "ratings.jsonl"
"""The rows that people's ratings made, beside the results."""
FAILED = "error"
"""The row of a fit that failed, with the reason."""
QUICK = "A quick try"
"""The first words of the warning of a run of few prompts."""


def require_free(path: Path) -> None:
    """Refuse a path that holds something other than a run."""
    if path.exists() and not path.is_dir():
        raise UserError(f"cannot write the run folder {path}: File exists")
    if not path.is_dir() or (path / MANIFEST).is_file():
        return
    if any(p.name.removesuffix(".tmp") not in (CONFIG, MANIFEST, LOCK) for p in path.iterdir()):
        raise UserError(f"{path} is not a run folder but is not empty: choose another run_dir")


def quick_try(most: int) -> str:
    """The warning of a run with at most so many prompts of each set."""
    return (
        f"{QUICK}: at most {most} prompt{'' if most == 1 else 's'} of each set (limit={most}), too "
        "few to report a figure or keep an edit by; leave limit out for a result."
    )
