"""`countergen-edit edit`: save an edited model with its card: one eraser's edit, or a run's.

Of several axes each is edited on what the ones before it leave; to a checkpoint that carries edits
one more is added, and what those were made for is measured again where it can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from countergen_edit import api
from countergen_edit.cli.models import Content, ModelSettings, ServedSettings, make_settings
from countergen_edit.cli.printing import say, show
from countergen_edit.cli.saving import SAVING, SaveSettings, save_settings
from countergen_edit.cli.settings import StudySettings, axes_of, command_line, study_settings
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.task import Task
from countergen_edit.edits.checkpoints import Base, edits_of, is_checkpoint, load_base
from countergen_edit.reports.findings import saved_as
from countergen_edit.reports.run import Run

TOLD = ("axis", "data", "texts", "names", "groups", "seed")
"""The settings that a task is made from."""
PLACE = ("device", "dtype", "device_map", "bos", "template", "instruction")
"""Settings of a model that say where and how it is loaded."""


def run(config: Mapping[str, Any]) -> None:
    """Measure, fit, save, and say what came of it."""
    if not config["save"]:
        raise UserError("say where the checkpoint goes: save=DIR")
    saving = save_settings("edit", config)
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
    asked, place = by_axis(settings, config["axes"]), settings.edit
    base = base_of(settings.model)
    model = base.model
    saving.check(model, place.site, place.layers, base.before)
    tasks = [own.task(model) for own in asked]
    told, earlier = earlier_tasks(base, settings, [task.name for task in tasks])
    own = {task.name: told_again(of) for task, of in zip(tasks, asked, strict=True)}
    kept = settings.config
    if config["axes"]:  # what else would be an axis that is not edited
        kept = {key: value for key, value in kept.items() if key not in ("axis", "data")}
    if told or config["axes"]:
        kept = {**kept, "tasks": {**told, **own}}
    edited = api.audit(
        model,
        tasks,
        erasers,
        metrics,
        settings.run_dir,
        site=place.site,
        layers=place.layers,
        positions=place.positions,
        sinks=place.sinks,
        fitted=place.fitted,
        before=base.before,
        earlier=earlier,
        seed=settings.seed,
        config=kept,
        command=command_line("edit", SAVING),
    )
    saved = saving.save_best(edited)
    show(edited, *(f"Edit: {e.label}" for e in [edited.best] if e), *saved_as(saved))
    saving.upload(saved)


def by_axis(settings: StudySettings, axes: Any) -> list[StudySettings]:
    """The settings of each axis that is edited, in their order.

    Raises:
        UserError: `axes` names no axis with its data, or groups are named for several.
    """
    several = axes_of(axes)
    if several is None:
        return [settings]
    if settings.groups is not None:
        raise UserError(f"groups={[*settings.groups]} is for one axis: leave it out with axes=")
    return [settings.about(axis, data) for axis, data in several.items()]


def base_of(where: ModelSettings | ServedSettings) -> Base:
    """What is edited; of a checkpoint the model that it was made of, with the edits it carries."""
    if not is_checkpoint(where.name):
        return Base(where.load(), None, {})
    places = {key: value for key, value in asdict(where).items() if key in PLACE}
    return load_base(where.name, **places)


def earlier_tasks(
    base: Base, settings: StudySettings, names: Sequence[str]
) -> tuple[dict[str, Content], list[Task]]:
    """What a checkpoint was edited for before, but for axes that are edited now.

    What cannot be asked again, as a file is gone say, is told.
    """
    told, tasks, reasons = {}, [], dict[str, str]()
    for name, content in tasks_told(base.record).items():
        if name in names:
            continue
        try:
            groups = content.get("groups")
            groups = tuple(groups) if isinstance(groups, list) else groups
            own = replace(settings, **{**content, "groups": groups})
            tasks.append(own.task(base.model))
            told[name] = content
        except (UserError, TypeError) as error:
            reasons[name] = f": {error}"
    for edit in edits_of(base.record):
        if (axis := edit["axis"]) not in (*told, *names):
            called = axis or "an axis without a name"
            say([f"Edited before and not measured again: {called}{reasons.get(axis, '')}"])
    return told, tasks


def tasks_told(about: Mapping[str, Any]) -> dict[str, Content]:
    """What the record of a checkpoint tells of its tasks, by their names."""
    config = about.get("config", {})
    if "tasks" in config:
        return dict(config["tasks"])
    content = {key: config[key] for key in TOLD if key in config}
    axis = content.get("axis")
    return {str(axis["name"]): content} if isinstance(axis, Mapping) and "name" in axis else {}


def told_again(own: StudySettings) -> Content:
    """All that a task is made from, as a checkpoint tells it."""
    return {key: getattr(own, key) for key in TOLD}


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
    model = replace(where, name=name, **as_measured(run.manifest, asdict(where))).load()
    if model.fingerprint != run.manifest["model_hash"]:
        raise UserError(f"{name} is not the model that {run.path} edited: its weights differ")
    saved = saving.save_best(replace(part, model=model))
    say([f"Edit: {part.best.label}", *saved_as(saved)])
    saving.upload(saved)


def as_measured(about: Mapping[str, Any], where: Mapping[str, Any]) -> dict[str, Any]:
    """How a model is loaded so that its texts are what they were when it was measured.

    Args:
        about: a manifest, or the record of a checkpoint.
        where: settings of the model, for what neither tells.
    """
    template = about.get("template")
    return {
        "bos": about.get("bos", where["bos"]),
        "template": "chat" if template else "none",
        "instruction": template["instruction"] if template else where["instruction"],
    }


def _of_task(run: Run, task: str | None) -> Run:
    """The run of one task; its only one, or the edit of all, unless named."""
    parts = run.by_task()
    if task is None and run.best is not None:
        return run
    if task is None and len(parts) == 1:
        return next(iter(parts.values()))
    if task is None:
        raise UserError(f"{run.path} has several tasks: write run_task=NAME, of {', '.join(parts)}")
    if task not in parts:
        raise unknown("task of the run", task, parts)
    return parts[task]
