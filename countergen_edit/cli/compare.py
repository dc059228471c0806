"""`countergen-edit compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import console, say
from countergen_edit.cli.study import texts_in
from countergen_edit.core.errors import command
from countergen_edit.reports.compare import Comparison
from countergen_edit.reports.render.terminal import print_sections


def run_compare(config: Mapping[str, Any], words: Sequence[str] = ()) -> None:
    """Print the runs side by side, and their differences where they share prompts."""
    runs = texts_in(config["runs"])
    comparison = api.compare(*runs, cluster=config["cluster"])
    show_comparison(comparison)
    if config["folder"]:
        say(["", f"Report: {comparison.report(Path(config['folder']))}"])
    else:
        again = command("compare", *runs, "folder=DIR")
        say(["", f"Next, as a page, with every row: {again}"])


def show_comparison(comparison: Comparison) -> None:
    """Print the brief tables of a comparison."""
    print_sections(comparison.sections, console)
    if not {*comparison.tables} - {"side_by_side"}:
        say(["These runs share no prompts on which R was measured: nothing is paired."])
