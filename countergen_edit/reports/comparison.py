"""Runs held against each other: as tables, as one page, as files.

Comes in: two runs or more. Goes out: a `Comparison`. Refused: runs that are one, a folder that
cannot be written.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from countergen_edit.core.errors import UserError
from countergen_edit.core.writing import whole
from countergen_edit.reports.blocks import Block, Section, Table, Words
from countergen_edit.reports.compare import (
    every_row,
    figures_table,
    in_words,
    items_table,
    paired_table,
    run_names,
    side_by_side,
    unlike,
)
from countergen_edit.reports.over_runs import by_task, pooled, sections
from countergen_edit.reports.provenance import title
from countergen_edit.reports.render.csv import as_csv
from countergen_edit.reports.run import Run
from countergen_edit.runs.compare import paired, paired_figures, paired_items, unpaired

if TYPE_CHECKING:
    from pandas import DataFrame

ROWS, TABLES = "rows.csv", "tables"
"""What lies beside a comparison's page: all rows, and a folder of what the page shows."""


@dataclass(frozen=True)
class Comparison:
    """Runs side by side."""

    side_by_side: Table
    """The main figures of every run and edit."""
    paired: Table | None
    """Differences on the prompts that runs share; None where they share none."""
    items: Table | None
    """Differences of what other tools measured, item by item; None without two of their logs."""
    figures: Table | None
    """Differences of figures on the items that runs share; None where they share none."""
    every_row: Table
    """All rows of all runs, what is of several together, and the differences."""
    sections: tuple[Section, ...] = ()
    """What a page shows, in order."""
    title: str = ""
    """What the page is called."""
    erasers: tuple[str, ...] = ()
    """Of all runs."""

    def to_frame(self) -> DataFrame:
        """Every row as a line of a pandas DataFrame."""
        from pandas import read_csv

        return read_csv(io.StringIO(as_csv(self.every_row)))

    def report(self, folder: Path | str) -> Path:
        """Write the page, its tables (CSV and LaTeX) and all rows into a folder; the page's path.

        Raises:
            UserError: it cannot be written.
        """
        from countergen_edit.reports.render.export import export
        from countergen_edit.reports.render.html import REPORT, write_page

        folder = Path(folder)
        with whole(folder / ROWS) as temporary:
            temporary.write_text(as_csv(self.every_row), "utf-8", errors="replace")
        export(self.sections, folder / TABLES, (), ("csv", "latex"))
        kind = "Comparison of language models"
        about = (f"{len(self.every_row.rows)} result rows, in {ROWS}",)
        return write_page(
            self.sections,
            folder / REPORT,
            title=self.title,
            kind=kind,
            about=about,
            erasers=self.erasers,
        )

    def _repr_html_(self) -> str:
        return str(self.to_frame()._repr_html_())


def comparison(runs: Sequence[Run], seed: int = 0) -> Comparison:
    """Hold runs against each other.

    Args:
        runs: two or more; the later ones are paired with the first.
        seed: of the resamples behind paired intervals.

    Raises:
        UserError: there are fewer than two.
    """
    if len({run.path.resolve() for run in runs}) < 2:
        raise UserError("compare needs two run folders: write countergen-edit compare RUN RUN")
    names = run_names(runs)
    differences = paired([(name, run.path) for name, run in zip(names, runs, strict=True)], seed)
    by_name = dict(zip(names, runs, strict=True))
    logs = {name: run.log for name, run in by_name.items() if run.log is not None}
    of_items = paired_items(logs, seed)
    ours = [(name, run.path) for name, run in by_name.items() if run.log is None]
    of_figures = paired_figures(ours, seed) if len(ours) > 1 else []
    together = [row for sides in by_task(runs, names).values() for row in pooled(runs, sides)]
    beside = side_by_side(runs, names)
    pairs = paired_table(differences, by_name) if differences else None
    items = items_table(of_items, logs) if of_items else None
    measured = beside if any(run.compared() for run in runs) else None
    figures = figures_table(of_figures, by_name) if of_figures else None
    tables = (measured, pairs, figures, items)
    overview: list[Block] = [table for table in tables if table is not None]
    if said := in_words(differences, by_name):
        overview.insert(0, Words(tuple(said), brief=True))
    own = {name: run for name, run in by_name.items() if run.log is None}
    told = [unpaired(ours, [*logs]), *(unlike([*own.values()], [*own]) if len(own) > 1 else [])]
    if said := [sentence for sentence in told if sentence]:
        overview.append(Words(tuple(said), brief=True))
    return Comparison(
        beside,
        pairs,
        items,
        figures,
        every_row(runs, names, [*differences, *of_figures, *of_items], together),
        sections(runs, names, overview),
        _title(runs),
        tuple(dict.fromkeys(eraser for run in runs for eraser in run.erasers)),
    )


def _title(runs: Sequence[Run]) -> str:
    """The models, and who is compared: once where that is the same in all."""
    parts = [title(run).partition(": ") for run in runs]
    if len({about for _, _, about in parts}) > 1:
        return "; ".join(dict.fromkeys("".join(part) for part in parts))
    return ", ".join(dict.fromkeys(model for model, _, _ in parts)) + "".join(parts[0][1:])
