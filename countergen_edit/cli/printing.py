"""Printing: lines as they are, and a run with the path of its page."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console

from countergen_edit.core.characters import printable
from countergen_edit.core.errors import command

if TYPE_CHECKING:
    from countergen_edit.runs.run import Run

console = Console(highlight=False)
if not console.is_terminal and "COLUMNS" not in os.environ:
    console.width = 100


def say(lines: Iterable[str]) -> None:
    """Print lines as they are, however long."""
    for line in lines:
        console.print(printable(line), soft_wrap=True, markup=False)


def show_run(run: Run, *lines: str) -> None:
    """Print a run, further lines, and the path of its page."""
    from countergen_edit.reports.render.terminal import print_run  # late: torch comes with it

    print_run(run, console)
    say([*lines, f"Page: {run.report()} (all tables: {command('report', run.path)})"])
