"""`countergen-edit rate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import say, show_run
from countergen_edit.cli.study import texts_in
from countergen_edit.core.errors import command, require_known
from countergen_edit.runs.ratings import ASKED, read_ratings, write_sheets
from countergen_edit.runs.run import open_run

SEED = 0
"""Of the order of texts."""


def run_rate(config: Mapping[str, Any], words: Sequence[str] = ()) -> None:
    """Run the action."""
    require_known("action", config["action"], RATE_ACTIONS)
    runs = [Path(run).expanduser() for run in texts_in(config["runs"])]
    RATE_ACTIONS[config["action"]](runs, Path(config["folder"]).expanduser(), config)


def sheet(runs: list[Path], folder: Path, config: Mapping[str, Any]) -> None:
    """Write the rating sheets of every rater."""
    sheets = write_sheets(runs, folder, texts_in(config["raters"]), SEED)
    say([*(f"Rating sheet: {path}" for path in sheets), ASKED])
    again = command("rate", "action=ratings", *runs, f"folder={folder}")
    say([f"Next, with all sheets filled in: {again}"])


def ratings(runs: list[Path], folder: Path, config: Mapping[str, Any]) -> None:
    """Read the rating sheets into the runs."""
    read_ratings(runs, folder, SEED)
    for path in runs:
        show_run(open_run(path))


RATE_ACTIONS = {f.__name__: f for f in (sheet, ratings)}
