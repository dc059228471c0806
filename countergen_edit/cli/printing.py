"""What commands print of a run, and where they say it lies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from countergen_edit.reports.run import Run

console = Console(highlight=False)


def say(lines: Iterable[str]) -> None:
    """Print lines as they are, however long."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)


def show(run: Run, *lines: str, then: Iterable[str] = ()) -> None:
    """Print a run, further lines, where its page and folder are, and what one might do then."""
    from countergen_edit.reports.render.terminal import print_run  # late: torch comes with it

    print_run(run, console)
    say(["", *lines, f"Report: {run.report()}", f"Run folder: {run.path}", *then])
