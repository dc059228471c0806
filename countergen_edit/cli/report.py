"""`countergen-edit report RUN`: from a run folder to its page, and to files for papers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from countergen_edit.errors import UserError
from countergen_edit.reports.export import export
from countergen_edit.reports.html import write_report
from countergen_edit.reports.run import open_run
from countergen_edit.reports.sections import sections


def run(config: Mapping[str, Any]) -> None:
    """Write `report.html` into the run folder, and what else is asked for."""
    if not config["run"]:
        raise UserError("no run is named: write countergen-edit report RUN, RUN being its folder")
    opened = open_run(Path(config["run"]))
    console = Console(highlight=False)
    console.print(f"Report: {write_report(opened)}", soft_wrap=True)
    forms = {key: _forms(config[key]) for key in ("figures", "tables")}
    if any(forms.values()):
        folder = Path(config["folder"] or opened.path / "paper")
        written = export(sections(opened), folder, **forms)
        console.print(f"{len(written)} files in {folder}", soft_wrap=True)


def _forms(value: Any) -> list[str]:
    found = value if isinstance(value, list) else [value]
    return [str(form) for form in found if form]
