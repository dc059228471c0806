"""Planted against measured, family by family."""

from __future__ import annotations

from rich import box
from rich.table import Table

from countergen_edit.reports.results import Results
from countergen_edit.reports.table import number

COLUMNS = {
    "planted_mean_abs_r": "mean |R|\nplanted",
    "mean_abs_r": "mean |R|\nmeasured",
    "planted_r_correlation": "correlation\nof R",
    "planted_r_mean_abs_difference": "mean absolute\ndifference",
}


def recovery_table(results: Results) -> Table:
    """How well a model carries the planted truth, for held-out names and wordings."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("family")
    for title in COLUMNS.values():
        table.add_column(title, justify="right")
    table.add_column("n", justify="right")
    for row in results.of("planted_mean_abs_r"):
        found = [results.find(metric, dataset=row.dataset, edit="none") for metric in COLUMNS]
        cells = [number(r.value if r else None) for r in found]
        table.add_row(row.dataset.replace("_", " "), *cells, str(row.n))
    table.add_section()
    for row in results.of("agreement", split=""):
        who = "both groups" if row.group_b else row.group_a
        table.add_row(f"agreement, {who}", "1.000", number(row.value), "", "", str(row.n))
    return table
