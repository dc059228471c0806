"""`countergen-edit edit`: audit one eraser's edit, then save the edited model with its card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import show
from countergen_edit.cli.saving import SAVING, save_settings
from countergen_edit.cli.settings import command_line, study_settings
from countergen_edit.errors import UserError
from countergen_edit.reports.closing import about


def run(config: Mapping[str, Any]) -> None:
    """Measure, fit, save, and say what came of it."""
    if not config["save"]:
        raise UserError("say where the checkpoint goes: save=DIR")
    saving, settings = save_settings(config), study_settings(config, SAVING)
    erasers, metrics = settings.erasers(), settings.metrics()
    if len(erasers) != 1:
        raise UserError(
            f"a checkpoint holds one edit, not {len(erasers)} ({', '.join(erasers)}): choose one, "
            "such as eraser=rlace; `countergen-edit audit` compares several"
        )
    model, place = settings.model.load(), settings.edit
    saving.check(model, place.site, place.layers)
    edited = api.audit(
        model,
        settings.task(model),
        erasers,
        metrics,
        settings.run_dir,
        site=place.site,
        layers=place.layers,
        positions=place.positions,
        seed=settings.seed,
        config=settings.config,
        command=command_line("edit", SAVING),
    )
    saved = saving.save_best(edited)
    show(edited, *about(saved))
    saving.upload(saved)
