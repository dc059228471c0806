"""`countergen-edit edit`: save an edited model with its card: an eraser's edit, or a run's best.

Of several axes each is edited after the ones before it; a checkpoint with edits gets one more, and
its earlier tasks are measured again if they can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from countergen_edit import api
from countergen_edit.cli.models import Content, ModelSettings, ServedSettings, make_settings
from countergen_edit.cli.printing import say, show
from countergen_edit.cli.saving import SAVING, SaveSettings, save_settings
from countergen_edit.cli.study import StudySettings, command_line, study_settings
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.data.task import Task
from countergen_edit.edits.checkpoints import Base, is_checkpoint, load_base
from countergen_edit.reports.findings import saved_as
from countergen_edit.reports.run import Run

OF_TASK = ("axis", "data", "texts", "names", "groups", "seed")
"""The settings of a task."""
LOADING = ("device", "dtype", "device_map", "bos", "template", "instruction")
"""The settings of a model that say where and how it is loaded."""


def run(config: Mapping[str, Any]) -> None:
    """Measure, fit and save."""
    if not config["save"]:
        raise UserError("say where the checkpoint goes: save=DIR")
    saving = save_settings("edit", config)
    if config["run"]:
        save_of_run(config, saving)
        return
    settings = study_settings(config, (*SAVING, "run", "run_task"))
    erasers, metrics = settings.make_erasers(), settings.make_metrics()
    if not erasers:
        raise UserError("a checkpoint holds an edit: name an eraser, such as eraser=rlace")
    if len(erasers) != 1:
        raise UserError(
            f"a checkpoint holds one edit, not {len(erasers)} ({', '.join(erasers)}): choose one, "
            "such as eraser=rlace; `countergen-edit audit` compares several"
        )
    by_axis, place = settings.by_axis(config["axes"]), settings.edit
    if config["axes"] and settings.groups is not None:
        raise UserError(f"groups={[*settings.groups]} is for one axis: leave it out with axes=")
    base = base_of(settings.model)
    model = base.model
    saving.check(model, place.site, place.layers, base.before)
    tasks = [own.task(model) for own in by_axis]
    contents, earlier = earlier_tasks(base, settings, [task.name for task in tasks])
    for task, own in zip(tasks, by_axis, strict=True):
        contents[task.name] = {key: getattr(own, key) for key in OF_TASK}
    kept = settings.config
    if config["axes"]:  # axis and data would be of an axis that is not edited
        kept = {key: value for key, value in kept.items() if key not in ("axis", "data")}
    if earlier or config["axes"]:
        kept = {**kept, "tasks": contents}
    edited = api.audit(
        model,
        tasks,
        erasers,
        metrics,
        settings.run_dir,
        site=place.site,
        layers=place.layers,
        positions=place.positions,
        skip_attention_sinks=place.skip_attention_sinks,
        fitted=place.fitted,
        before=base.before,
        earlier=earlier,
        seed=settings.seed,
        config=kept,
        command=command_line("edit", SAVING),
    )
    saved = saving.save_best(edited)
    show(edited, *(f"Edit: {e.label}" for e in [edited.best] if e), *saved_as(saved))


def base_of(where: ModelSettings | ServedSettings) -> Base:
    """The unedited model, with the edits that a checkpoint carries."""
    if not is_checkpoint(where.name):
        return Base(where.load(), None, {})
    places = {key: value for key, value in asdict(where).items() if key in LOADING}
    return load_base(where.name, **places)


def earlier_tasks(
    base: Base, settings: StudySettings, names: Sequence[str]
) -> tuple[dict[str, Content], list[Task]]:
    """The tasks of a checkpoint's earlier edits, but for axes that are edited now.

    A task that cannot be made, such as of a file that was deleted, is printed.
    """
    contents, tasks, reasons = dict[str, Content](), list[Task](), dict[str, str]()
    for name, content in task_contents(base.record).items():
        if name in names:
            continue
        try:
            groups = content.get("groups")
            groups = tuple(groups) if isinstance(groups, list) else groups
            own = replace(settings, **{**content, "groups": groups})
            tasks.append(own.task(base.model))
            contents[name] = content
        except (UserError, TypeError) as error:
            reasons[name] = f": {error}"
    for edit in base.record.get("edits") or ():
        if (axis := edit["axis"]) not in (*contents, *names):
            called = axis or "an axis without a name"
            say([f"Edited before and not measured again: {called}{reasons.get(axis, '')}"])
    return contents, tasks


def task_contents(record: Mapping[str, Any]) -> dict[str, Content]:
    """The settings of each task of a checkpoint's record."""
    config = record.get("config") or {}
    if "tasks" in config:
        return dict(config["tasks"])
    content = {key: config[key] for key in OF_TASK if key in config}
    axis = content.get("axis")
    return {str(axis["name"]): content} if isinstance(axis, Mapping) and "name" in axis else {}


def save_of_run(config: Mapping[str, Any], saving: SaveSettings) -> None:
    """Save the best edit of an earlier run."""
    run = api.load_run(str(config["run"]))
    part = part_of(run, config["run_task"])
    if part.results.is_unedited:
        raise UserError(f"{run.path} measured a model and made no edit: nothing to save")
    if part.best is None:
        raise UserError(f"{run.path} has no edit that keeps within its budgets: nothing to save")
    name, template = run.manifest["model"], run.manifest.get("template")
    where = make_settings(ModelSettings, "model", config["model"])
    measured = replace(
        where,
        name=name,
        bos=run.manifest.get("bos", where.bos),
        template="chat" if template else "none",
        instruction=template["instruction"] if template else where.instruction,
    )
    model = measured.load()
    if model.fingerprint != run.manifest["model_hash"]:
        raise UserError(f"{name} is not the model that {run.path} edited: its weights differ")
    saved = saving.save_best(replace(part, model=model))
    say([f"Edit: {part.best.label}", *saved_as(saved)])


def part_of(run: Run, task: str | None) -> Run:
    """The part of a run for a task; without a task its only part, or the edit of all."""
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
