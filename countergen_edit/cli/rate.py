"""`countergen-edit rate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import say, show
from countergen_edit.cli.study import texts_in
from countergen_edit.core.errors import command, require_known
from countergen_edit.runs.ratings import read_ratings, write_sheets
from countergen_edit.runs.run import open_run


def run(config: Mapping[str, Any]) -> None:
    """Run the action."""
    require_known("action", config["action"], ACTIONS)
    runs = [Path(run).expanduser() for run in texts_in(config["runs"])]
    ACTIONS[config["action"]](runs, Path(config["folder"]).expanduser(), config)


def sheet(runs: list[Path], folder: Path, config: Mapping[str, Any]) -> None:
    """Write the rating sheets of every rater."""
    sheets = write_sheets(runs, folder, texts_in(config["raters"]), config["seed"])
    say(f"Rating sheet: {path}" for path in sheets)
    say(dict.fromkeys(question.asks for question in sheets.values()))
    again = command("rate", "action=ratings", *runs, f"folder={folder}")
    say([f"Next, with all sheets filled in: {again}"])


def ratings(runs: list[Path], folder: Path, config: Mapping[str, Any]) -> None:
    """Read the rating sheets into the runs."""
    read_ratings(runs, folder, config["seed"])
    for path in runs:
        show(open_run(path))


ACTIONS = {f.__name__: f for f in (sheet, ratings)}
