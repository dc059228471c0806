"""`countergen-edit audit`: settings → objects → rows → table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from countergen_edit.cli.build import build_audit, load_model
from countergen_edit.cli.run_place import identity, run_place
from countergen_edit.cli.settings import audit_settings
from countergen_edit.experiments.audit import audit, check_plan
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.reports.html import write_report
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import open_run
from countergen_edit.reports.terminal import print_audit


def run(config: Mapping[str, Any]) -> None:
    """Run, or finish, the audit that a composed config describes; print it and its folder."""
    settings = audit_settings(config)
    model = load_model(settings.model)
    plan, data_hash = build_audit(settings, model)
    check_plan(model, plan)
    kept, manifest = identity("audit", config, settings, model, data_hash)
    folder = RunFolder(run_place("audit", settings, plan, manifest), kept, manifest)
    rows = audit(model, plan, folder)
    console = Console(highlight=False)
    print_audit(Results(rows), console)
    console.print(f"\nReport: {write_report(open_run(folder.path))}", soft_wrap=True)
    console.print(f"Run folder: {folder.path}", soft_wrap=True)
