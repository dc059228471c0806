"""Runs side by side: what each found under each edit, and paired differences.

Comes in: runs, and the rows of their differences. Goes out: tables, in the terminal and as CSV.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as Printed
from rich.text import Text

from countergen_edit.metrics.rows import Row
from countergen_edit.reports.blocks import Cell, Number, Quotes, Table
from countergen_edit.reports.figures.panels import dataset_label
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections.labels import UNEDITED, edit_label, shown

ABOUT = {"model": "model", "seed": "seed"}
"""Facts of the manifest that tell runs apart."""


def run_names(runs: Sequence[Run]) -> list[str]:
    """Each run's folder, with as much of what stands above it as tells them apart."""
    parts = [run.path.resolve().parts for run in runs]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names


def side_by_side(runs: Sequence[Run], names: Sequence[str]) -> Table:
    """Every run under every edit, on the first run's first set where it has that."""
    first = next(iter(runs[0].results.unedited("mean_abs_r")), None)
    told = [key for key in ABOUT if len({str(run.manifest.get(key)) for run in runs}) > 1]
    lines: list[tuple[Cell, ...]] = []
    for run, name in zip(runs, names, strict=True):
        results = run.results
        for edit in (UNEDITED, *(row.edit for row in shown(results))):
            own = _main(results, first)
            bias = None if own is None else results.under(own, edit)
            gone = None if own is None else results.under(own, edit, "abs_r_reduction")
            agreement = [r for r in results.of("agreement") if r.edit == edit and r.group_b]
            ratio = [r for r in results.of("perplexity_ratio") if r.edit == edit]
            lines.append(
                (
                    name,
                    *(str(run.manifest.get(key, "")) for key in told),
                    edit_label(edit),
                    Number.of(bias),
                    Number.of(gone, percent=True) if gone else "",
                    *(Number.of(next(iter(cost), None)) for cost in (agreement, ratio)),
                )
            )
    about = "" if first is None else f": bias on {dataset_label(first.dataset)}"
    titles = ("edit", "mean |R|", "removed", "P(right)", "perplexity\nratio")
    return Table(
        "side_by_side",
        f"Side by side{about}",
        ("run", *(ABOUT[key] for key in told), *titles),
        tuple(lines),
    )


def _main(results: Results, like: Row | None) -> Row | None:
    """The run's row about the same set, or else its own first."""
    rows = results.unedited("mean_abs_r")
    same = [r for r in rows if like is not None and r.dataset == like.dataset]
    return next(iter([*same, *rows]), None)


def paired_table(rows: Sequence[Row]) -> Table:
    """Differences of mean |R|, set by set."""
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        d = row.detail
        lines.append(
            (
                f"{d['run']}\n− {d['against_run']}",
                _minus(edit_label(row.edit), edit_label(d["against_edit"])),
                dataset_label(row.dataset) + (" (fitted)" if row.split == "fit" else ""),
                Number.of(row, signed=True),
                f"{d['samples']} of {d['samples_of_either']}",
            )
        )
    first = rows[0].detail["against_run"] if rows else ""
    several = len({row.detail["run"] for row in rows}) > 1
    return Table(
        "paired",
        f"Paired differences of mean |R| from {first}, on the prompts that runs share",
        ("run", "edit", "set", "mean |R|", "shared"),
        tuple(lines),
        f"Below 0, a run is less biased than {first}. Intervals are 95 %, drawn over wordings and "
        "names together."
        + (
            f" Every run is held against the first, {first}: to hold it against another, name "
            "that one first."
            if several
            else ""
        ),
    )


def _minus(edit: str, against: str) -> str:
    """The edits of a difference, below each other where they differ.

    >>> _minus("rlace-1", "rlace-1"), _minus("rlace-1", "no edit")
    ('rlace-1', 'rlace-1\\n− no edit')
    """
    return edit if edit == against else f"{edit}\n− {against}"


def every_row(runs: Sequence[Run], names: Sequence[str], differences: Sequence[Row]) -> Table:
    """All rows of all runs with their differences, for a file."""
    lines: list[tuple[Cell, ...]] = []
    found = [
        (name, "", row) for run, name in zip(runs, names, strict=True) for row in run.results.rows
    ]
    for row in differences:
        d = row.detail
        found.append((d["run"], f"{d['against_run']}, {d['against_edit']}", row))
    for name, against, row in found:
        groups = " / ".join(g for g in (row.group_a, row.group_b) if g)
        lines.append(
            (
                name,
                against,
                row.metric,
                row.dataset,
                row.axis,
                groups,
                row.edit,
                row.split,
                Number.of(row),
                str(row.n),
            )
        )
    columns = ("run", "minus", "metric", "data", "axis", "groups", "edit", "split", "value", "n")
    return Table("compare", "Runs side by side", columns, tuple(lines))


def print_table(table: Table, console: Console) -> None:
    """A table in the terminal, intervals below their figures."""
    printed = Printed(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    printed.title, printed.title_justify, printed.title_style = Text(table.title), "left", "bold"
    for i, column in enumerate(table.columns):
        numeric = any(isinstance(row[i], Number) for row in table.rows)
        kept = numeric or "edit" in column
        printed.add_column(
            column, justify="right" if numeric else "left", overflow="fold", no_wrap=kept
        )
    last: Any = None
    for row in table.rows:
        if last is not None and row[0] != last:
            printed.add_section()
        printed.add_row(*map(_printed, row))
        last = row[0]
    console.print(printed)
    if table.note:
        console.print(Text(table.note, style="dim"))


def _printed(cell: Cell) -> Text:
    if isinstance(cell, Number):
        text = Text(cell.text)
        short = cell.interval.replace("0.", ".").replace(" to ", "–")
        return text.append(f"\n{short}", style="dim") if short else text
    if isinstance(cell, Quotes):
        return Text("; ".join(quote.text for quote in cell.quotes))
    return Text(cell)
