"""`countergen-edit edit`: save an edited model with its card: one eraser's edit, or a run's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from countergen_edit import api
from countergen_edit.cli.models import ModelSettings, make_settings
from countergen_edit.cli.printing import say, show
from countergen_edit.cli.saving import SAVING, SaveSettings, save_settings
from countergen_edit.cli.settings import command_line, study_settings
from countergen_edit.errors import UserError, unknown
from countergen_edit.reports.closing import about
from countergen_edit.reports.run import Run


def run(config: Mapping[str, Any]) -> None:
    """Measure, fit, save, and say what came of it."""
    if not config["save"]:
        raise UserError("say where the checkpoint goes: save=DIR")
    saving = save_settings(config)
    if config["run"]:
        save_of_run(config, saving)
        return
    settings = study_settings(config, (*SAVING, "run", "run_task"))
    erasers, metrics = settings.erasers(), settings.metrics()
    if not erasers:
        raise UserError("a checkpoint holds an edit: name an eraser, such as eraser=rlace")
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
        sinks=place.sinks,
        fitted=place.fitted,
        seed=settings.seed,
        config=settings.config,
        command=command_line("edit", SAVING),
    )
    saved = saving.save_best(edited)
    show(edited, *about(saved))
    saving.upload(saved)


def save_of_run(config: Mapping[str, Any], saving: SaveSettings) -> None:
    """Save the edit that an earlier run found best, as the run keeps it.

    Raises:
        UserError: the run has several tasks and none is named, no edit of it is worth keeping, or
            its model is not the one that was edited.
    """
    run = api.load_run(str(config["run"]))
    part = _of_task(run, config["run_task"])
    if part.results.is_unedited:
        raise UserError(f"{run.path} measured a model and made no edit: nothing to save")
    if part.best is None:
        raise UserError(f"{run.path} has no edit that keeps within its budgets: nothing to save")
    name = run.manifest["model"]
    where = make_settings(ModelSettings, "model", config["model"])
    model = replace(where, name=name, bos=run.manifest.get("bos", where.bos)).load()
    if model.fingerprint != run.manifest["model_hash"]:
        raise UserError(f"{name} is not the model that {run.path} edited: its weights differ")
    saved = saving.save_best(replace(part, model=model))
    say([f"Edit: {part.best.label}", *about(saved)])
    saving.upload(saved)


def _of_task(run: Run, task: str | None) -> Run:
    """The run of one task; its only one unless named."""
    parts = run.by_task()
    if task is None and len(parts) == 1:
        return next(iter(parts.values()))
    if task is None:
        raise UserError(f"{run.path} has several tasks: write run_task=NAME, of {', '.join(parts)}")
    if task not in parts:
        raise unknown("task of the run", task, parts)
    return parts[task]
