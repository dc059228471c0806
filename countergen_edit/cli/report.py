"""`countergen-edit report`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import console, say
from countergen_edit.cli.study import texts_in
from countergen_edit.core.errors import UserError
from countergen_edit.reports.render import export
from countergen_edit.reports.render.terminal import print_all
from countergen_edit.reports.sections import sections


def run(config: Mapping[str, Any]) -> None:
    """Print all tables and findings of a run; write its page and the requested files."""
    if not config["run"]:
        raise UserError("no run is named: write countergen-edit report RUN, RUN being its folder")
    opened = api.load_run(config["run"])
    print_all(opened, console)
    say([f"Page: {opened.report()}"])
    figures, tables = texts_in(config["figures"]), texts_in(config["tables"])
    if figures or tables:
        folder = Path(config["folder"] or opened.path / "paper")
        files = export(sections(opened), folder, figures, tables)
        say([f"{len(files)} files in {folder}"])
    else:
        again = f"countergen-edit report {shlex.quote(str(opened.path))} figures=pdf tables=latex"
        say([f"Next, as files for a paper: {again}"])
