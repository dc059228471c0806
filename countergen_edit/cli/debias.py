"""`countergen-edit debias`: search, audit, save, and say what came of it in plain words."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console

from countergen_edit.checkpoints import check_target
from countergen_edit.cli.build import build_audit, load_model
from countergen_edit.cli.edit import (
    SAVING,
    check_form,
    save,
    save_settings,
    upload,
)
from countergen_edit.cli.run_place import identity, run_place
from countergen_edit.cli.settings import audit_settings, integer
from countergen_edit.cli.sweep import swept_layers
from countergen_edit.errors import UserError
from countergen_edit.experiments.audit import audit, check_plan
from countergen_edit.experiments.cells import check_sweep
from countergen_edit.experiments.debias import find_edit, search_plan
from countergen_edit.experiments.pareto import Tolerance
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.reports.debias_summary import (
    next_steps,
    nothing_fits,
    summary,
)
from countergen_edit.reports.html import write_report
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import open_run
from countergen_edit.reports.terminal import print_audit

BUDGETS = {
    "max_agreement_loss": "agreement",
    "max_perplexity_increase": "perplexity",
    "max_kl": "kl",
}
"""Settings, and what the sweep calls them."""


def budgets_of(config: Mapping[str, Any]) -> Tolerance:
    """The budgets of a composed config.

    Raises:
        UserError: one is not a number above 0.
    """
    found = {}
    for key, name in BUDGETS.items():
        value = config[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise UserError(f"{key}={value!r}: a budget is a number above 0")
        found[name] = float(value)
    return Tolerance(**found)


def run(config: Mapping[str, Any]) -> None:
    """Find the edit, audit it, save it.

    Raises:
        SystemExit: with code 1 where no edit fits the budgets.
    """
    budgets, combine = budgets_of(config), integer("combine", config["combine"])
    settings = audit_settings(config)
    model = load_model(settings.model)
    plan, data_hash = build_audit(settings, model)
    searched = search_plan(
        plan, budgets, layers=swept_layers(config["layers"], model), combine=combine
    )
    kept, manifest = identity("debias", config, settings, model, data_hash, SAVING)
    place = run_place("debias", settings, plan, manifest)
    saving = save_settings({**config, "save": config["save"] or place / "checkpoint"})
    check_target(saving.save, saving.overwrite)
    check_plan(model, plan)
    check_sweep(model, searched)
    check_form(model, plan, saving)
    folder = RunFolder(place, kept, manifest)
    found = find_edit(model, plan, searched, RunFolder(place / "search", kept, manifest))
    console = Console(highlight=False)
    if found.plan is None:
        for line in nothing_fits(found.front, budgets):
            console.print(line, soft_wrap=True, markup=False)
        console.print(f"Run folder: {folder.path}", soft_wrap=True, markup=False)
        print("countergen-edit: no edit fits the budgets; nothing was saved", file=sys.stderr)
        raise SystemExit(1)
    if not folder.done("search"):
        folder.record("search", [replace(row, unit="") for row in found.rows])
    results = Results(audit(model, found.plan, folder))
    saved = save(model, found.plan, results, saving, kept, manifest)
    write_report(open_run(folder.path))
    print_audit(results, console)
    console.rule()
    for line in (*summary(results, saved, budgets), *next_steps(saved, folder.path)):
        console.print(line, soft_wrap=True, markup=False)
    upload(saved, saving, console)
