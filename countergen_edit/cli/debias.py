"""`countergen-edit debias`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from countergen_edit import api
from countergen_edit.cli.edit import SAVING, TARGET, save_settings
from countergen_edit.cli.printing import console, say, show
from countergen_edit.cli.study import command_line, fitting, searched_layers, study_settings
from countergen_edit.core.errors import UserError
from countergen_edit.erasers import BaseEraser
from countergen_edit.models.capture import EVERYWHERE
from countergen_edit.reports.findings import nothing_fits, saved_as, why_nothing
from countergen_edit.reports.render.terminal import print_run


def run(config: Mapping[str, Any]) -> None:
    """Find the edit, audit it, save it; of form=folded only edits that fold are searched.

    Raises:
        SystemExit: with code 1 if no edit within the budgets is shown to remove bias.
    """
    saving = save_settings("debias", config)
    is_folded = saving.form == "folded"
    if is_folded:
        config = {**config, "edit": that_folds(config["edit"])}
    settings = study_settings(config, SAVING)
    if is_folded:
        settings = replace(settings, erasers=those_that_fold(settings.erasers))
    place = settings.edit
    model = settings.model.load()
    layers = searched_layers(config["layers"], model)
    saving.check(model, place.site if settings.fits_maps else None, layers)
    task = settings.task(model)
    searched = api.search(
        model,
        task,
        settings.erasers,
        fitting(settings.metrics, task),
        settings.run_dir,
        sites=(place.site,),
        layers=layers,
        combine=config["combine"],
        tested="chosen",
        successive_halving=config["successive_halving"],
        seed=settings.seed,
        config=settings.config,
        command=command_line("debias", TARGET),
        **place.how,
    )
    best = searched.best
    if best is None or not searched.results.edits:
        print_run(searched, console)
        say([*nothing_fits(searched), f"Page: {searched.report()}"])
        print(f"countergen-edit: {why_nothing(searched)}", file=sys.stderr)
        raise SystemExit(1)
    saved = saving.save_best(searched)
    show(searched, *saved_as(saved))


def that_folds(edit: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of edits that fold: of the residual stream everywhere, and no token skipped."""
    if edit.get("site") in ("resid_post", EVERYWHERE):
        return {**edit, "layers": EVERYWHERE}
    return {**edit, "skip_attention_sinks": False}


def those_that_fold(erasers: Mapping[str, BaseEraser]) -> dict[str, BaseEraser]:
    """The erasers whose edits fold; raises a `UserError` if none does."""
    found = {name: eraser for name, eraser in erasers.items() if eraser.folds}
    if erasers and not found:
        raise UserError(
            f"no edit of eraser={next(iter(erasers))} is plain weights: name another, such as "
            "eraser=preserving, or another form, form=carried"
        )
    return found
