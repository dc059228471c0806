"""Names of the files of a run."""

from __future__ import annotations

from pathlib import Path

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import LOCK

CONFIG, MANIFEST, RESULTS, PROGRESS = (
    "config.yaml",
    "manifest.json",
    "results.jsonl",
    "progress.jsonl",
)
ORIGINAL = "original"
"""Folder of the run of the model that an audited checkpoint was made of."""
EDITS = "edits"
"""Folder of the edits, each under its id."""
FAILED = "error"
"""The row that stands for a fit that could not be made, with the reason."""
QUICK = "A quick try"
"""How a run of few prompts begins what it says."""


def require_free(path: Path) -> None:
    """Refuse what is no folder of a run and cannot become one.

    Raises:
        UserError: it is a file, or a folder that holds something else.
    """
    if path.exists() and not path.is_dir():
        raise UserError(f"cannot write the run folder {path}: File exists")
    if not path.is_dir() or (path / MANIFEST).is_file():
        return
    if any(p.name.removesuffix(".tmp") not in (CONFIG, MANIFEST, LOCK) for p in path.iterdir()):
        raise UserError(f"{path} is no run folder but is not empty: choose another run_dir")


def quick_try(most: int) -> str:
    """That a run asked at most so many prompts of each set."""
    return (
        f"{QUICK}: at most {most} prompt{'' if most == 1 else 's'} of each set (limit={most}), too "
        "few to report a figure or keep an edit by; leave limit out for a result."
    )
