"""What the files of a run are called, and the words of its judgement; no row is read for them."""

from __future__ import annotations

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
JUDGEMENT = "judgement"
"""The row that says whether an edit is one to keep."""
RECOMMENDED, TOO_DEAR, HARM, NOTHING = (
    "recommended",
    "costs too much",
    "does harm",
    "shows nothing",
)
QUICK = "A quick try"
"""How a run of few prompts begins what it says."""


def quick_try(most: int) -> str:
    """That a run asked at most so many prompts of each set."""
    return (
        f"{QUICK}: at most {most} prompt{'' if most == 1 else 's'} of each set (limit={most}), too "
        "few to report a figure or keep an edit by; leave limit out for a result."
    )
