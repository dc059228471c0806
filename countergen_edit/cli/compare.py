"""`countergen-edit compare RUN RUN …`: runs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from countergen_edit.cli.settings import integer
from countergen_edit.errors import UserError
from countergen_edit.experiments.compare import paired
from countergen_edit.reports.compare_table import (
    every_row,
    paired_table,
    print_table,
    run_names,
    side_by_side,
)
from countergen_edit.reports.export import as_csv
from countergen_edit.reports.run import open_run


def run(config: Mapping[str, Any]) -> None:
    """Print the runs side by side, and what differs where they share prompts."""
    paths = [Path(str(path)) for path in config["runs"]]
    if len({path.resolve() for path in paths}) < 2:
        raise UserError("compare needs two run folders: write countergen-edit compare RUN RUN")
    runs = [open_run(path) for path in paths]
    names = run_names(runs)
    seed = integer("seed", config["seed"])
    differences = paired(list(zip(names, paths, strict=True)), seed)
    console = Console(highlight=False)
    print_table(side_by_side(runs, names), console)
    console.print()
    if differences:
        print_table(paired_table(differences), console)
    else:
        console.print("These runs share no prompts on which R was measured: nothing is paired.")
    if config["csv"]:
        path = Path(config["csv"])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = as_csv(every_row(runs, names, differences))
            path.write_text(text, "utf-8", errors="replace")
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from error
        console.print(f"\nTable: {path}", soft_wrap=True)
