"""`countergen-edit runs`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import console, say
from countergen_edit.reports.index import INDEX, check_ours, counted, in_brief, list_runs, section
from countergen_edit.reports.render.html import write_page
from countergen_edit.reports.render.terminal import print_table


def run(config: Mapping[str, Any]) -> None:
    """Print the runs of a folder and write its index page."""
    folder = Path(config["folder"]).expanduser()
    page = folder / INDEX
    found = list_runs(folder)
    check_ours(page)
    for table in in_brief(found, folder):
        print_table(table, console)
        say([""])
    index = section(found, folder, page.parent)
    about = (counted(found),)
    write_page([index], page, title=f"Runs in {folder.resolve().name}", kind="Index", about=about)
    say([f"{counted(found)}.", f"Index: {page}"])
