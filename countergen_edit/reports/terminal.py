"""A whole audit in the terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from countergen_edit.reports.cid_section import cid_section
from countergen_edit.reports.fairpair_section import fairpair_section
from countergen_edit.reports.results import Results
from countergen_edit.reports.table import edit_table, edits_shown, headline, summary_table
from countergen_edit.reports.templates_section import templates_section

SECTIONS: tuple[Callable[[Results, Console], None], ...] = (
    templates_section,
    fairpair_section,
    cid_section,
)
"""What prints the rows of further metrics, each nothing where the run has none of its own."""


def print_audit(results: Results, console: Console) -> None:
    """Print an audit: a table for each edit, all edits side by side, and what that says."""
    for edit in edits_shown(results):
        console.print(edit_table(results, edit))
        console.print()
    for section in SECTIONS:
        section(results, console)
    if (summary := summary_table(results)) is not None:
        console.print(summary)
        console.print()
    for sentence in headline(results):
        console.print(Text(f"• {sentence}"))
