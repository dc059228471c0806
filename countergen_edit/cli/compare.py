"""`countergen-edit compare RUN RUN …`: runs, or logs of other tools, side by side."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import console, say
from countergen_edit.cli.settings import integer
from countergen_edit.core.writing import whole
from countergen_edit.reports.compare import Comparison
from countergen_edit.reports.render.csv import as_csv
from countergen_edit.reports.render.terminal import print_sections


def run(config: Mapping[str, Any]) -> None:
    """Print the runs side by side, and what differs where they share prompts."""
    runs = [str(path) for path in config["runs"]]
    seed = integer("seed", config["seed"])
    comparison = api.compare(*runs, seed=seed, cluster=config["cluster"])
    show(comparison)
    if config["csv"]:
        path = Path(config["csv"])
        with whole(path) as temporary:
            temporary.write_text(as_csv(comparison.every_row), "utf-8", errors="replace")
        say(["", f"Table: {path}"])
    if config["folder"]:
        say(["", f"Report: {comparison.report(Path(config['folder']))}"])
    else:
        again = f"countergen-edit compare {' '.join(map(shlex.quote, runs))}"
        say(["", f"Next, as a page, with every row: {again} folder=DIR"])


def show(comparison: Comparison) -> None:
    """Print what is brief of a comparison."""
    print_sections(comparison.sections, console)
    if (comparison.paired, comparison.items, comparison.figures) == (None, None, None):
        say(["These runs share no prompts on which R was measured: nothing is paired."])
