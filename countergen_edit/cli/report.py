"""`countergen-edit report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import console, say
from countergen_edit.cli.study import texts_in
from countergen_edit.core.errors import UserError, command, require_known
from countergen_edit.reports.evidence import write_evidence
from countergen_edit.reports.render import FIGURES, TABLES, export
from countergen_edit.reports.render.terminal import print_all
from countergen_edit.reports.sections import sections

EVIDENCE = "evidence"


def run_report(config: Mapping[str, Any], words: Sequence[str] = ()) -> None:
    """Print all tables and findings of a run; write its page and the requested files."""
    if not config["run"]:
        raise UserError("no run is named: write countergen-edit report RUN, RUN being its folder")
    forms = texts_in(config["files"])
    for form in forms:
        require_known("form", form, (*FIGURES, *TABLES, EVIDENCE))
    opened = api.load_run(config["run"])
    print_all(opened, console)
    say([f"Page: {opened.report()}"])
    if forms:
        folder = Path(config["folder"] or opened.path / "files")
        files = export(sections(opened), folder, [form for form in forms if form != EVIDENCE])
        if EVIDENCE in forms:
            files += write_evidence(opened, folder)
        say([f"{len(files)} files in {folder}"])
    else:
        again = command("report", opened.path, "files=[pdf,latex,evidence]")
        say([f"Next, as files: {again}"])
