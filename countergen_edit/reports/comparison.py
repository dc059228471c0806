"""Runs held against each other, as tables.

Comes in: two runs or more. Goes out: a `Comparison`. Refused: runs that are one.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from countergen_edit.errors import UserError
from countergen_edit.experiments.compare import paired
from countergen_edit.metrics.blocks import Table
from countergen_edit.reports.compare import every_row, paired_table, run_names, side_by_side
from countergen_edit.reports.render.csv import as_csv
from countergen_edit.reports.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Comparison:
    """Runs side by side."""

    side_by_side: Table
    """The main figures of every run and edit."""
    paired: Table | None
    """Differences on the prompts that runs share; None where they share none."""
    every_row: Table
    """All rows of all runs, and the differences."""

    def to_frame(self) -> DataFrame:
        """Every row as a line of a pandas DataFrame."""
        from pandas import read_csv

        return read_csv(io.StringIO(as_csv(self.every_row)))

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
    return Comparison(
        side_by_side(runs, names),
        paired_table(differences, by_name) if differences else None,
        every_row(runs, names, differences),
    )
