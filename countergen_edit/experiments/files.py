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
