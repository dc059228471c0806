"""`countergen-edit edit`: save an edited model with its card: an eraser's edit, or a run's best.

A checkpoint with edits gets one more, and its earlier tasks are measured again if they can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit import api
from countergen_edit.cli.printing import say, show
from countergen_edit.cli.study import (
    Content,
    ModelSettings,
    ServedSettings,
    StudySettings,
    command_line,
    make_settings,
    study_settings,
)
from countergen_edit.core.errors import UserError, unknown
from countergen_edit.core.stages import stage
from countergen_edit.data.task import Task
from countergen_edit.edits import UNCHANGED, Edit, NamedEdit
from countergen_edit.edits.checkpoints import (
    FORMS,
    Base,
    Saved,
    check_target,
    choose_form,
    fold,
    is_checkpoint,
    load_base,
    record_of,
)
from countergen_edit.erasers import AffineErasure
from countergen_edit.models import LanguageModel
from countergen_edit.models.capture import has_layers
from countergen_edit.reports.findings import saved_as
from countergen_edit.runs.run import Run

OF_TASK = ("axis", "data", "texts", "names", "groups", "seed")
"""The settings of a task."""


@dataclass(frozen=True)
class SaveSettings:
    """Where the checkpoint goes, and in which form."""

    save: Path | None
    """None: into the run folder."""
    form: str
    overwrite: bool

    def check(
        self,
        model: LanguageModel,
        site: str | None,
        layers: Sequence[int] | None,
        before: NamedEdit | None = None,
    ) -> None:
        """Refuse, before any work, a form in which an edit at a place cannot be saved.

        Without a site it is an update of weights.
        """
        if site is None:
            choose_form(model, UNCHANGED, "folded")
            return
        if model.is_stored_quantized:
            raise UserError(
                f"{model.name} has quantised weights alone, and a checkpoint has full ones: edit "
                "the model that it was made from, with model.quantization if it does not fit"
            )
        if model.is_quantized:
            return  # it is saved with full weights, which are read after the run
        direction = np.ones((model.d_model, 1)) / np.sqrt(model.d_model)
        erasure = AffineErasure(direction, direction.T, np.ones(model.d_model))
        places = layers or (0,) if has_layers(site) else (None,)
        sample = Edit.at(site, dict.fromkeys(places, erasure))
        if before is not None:
            sample = before.edit.then(sample)
        if choose_form(model, sample, self.form) == "folded":
            fold(model, sample)

    def save_best(self, run: Run) -> Saved:
        """Save a run's best edit, with full weights where the run had quantised ones."""
        if run.model is not None and run.model.is_quantized:
            stage("loading the full weights")
            where = {**run.config["model"], "quantization": None}
            run = replace(run, model=make_settings(ModelSettings, "model", where).load())
        assert run.best is not None
        return run.best.save(self.save or run.path / "checkpoint", self.form, self.overwrite)


SAVING = tuple(field.name for field in fields(SaveSettings))
TARGET = ("save", "overwrite")
"""The settings of a command that its record leaves out."""


def run(config: Mapping[str, Any]) -> None:
    """Measure, fit and save."""
    if not config["save"]:
        raise UserError("say where the checkpoint goes: save=DIR")
    saving = save_settings("edit", config)
    if config["run"]:
        save_of_run(config, saving)
        return
    settings = study_settings(config, (*SAVING, "run", "run_task"))
    erasers = settings.erasers
    if len(erasers) != 1:
        raise UserError(
            f"a checkpoint holds one edit, not {len(erasers)}: name one eraser, such as "
            "eraser=rlace; `countergen-edit audit` compares several"
        )
    place = settings.edit
    base = base_of(settings.model)
    model = base.model
    if settings.fits_maps:
        saving.check(model, place.site, place.layers, base.before)
    task = settings.task(model)
    contents, earlier = earlier_tasks(base, settings, task.name)
    kept = settings.config
    if earlier:
        contents[task.name] = {key: getattr(settings, key) for key in OF_TASK}
        kept = {**kept, "tasks": contents}
    edited = api.audit(
        model,
        task,
        erasers,
        settings.metrics,
        settings.run_dir,
        site=place.site,
        layers=place.layers,
        before=base.before,
        earlier=earlier,
        seed=settings.seed,
        config=kept,
        command=command_line("edit", TARGET),
        **place.how,
    )
    saved = saving.save_best(edited)
    show(edited, *(f"Edit: {e.label}" for e in [edited.best] if e), *saved_as(saved))


def base_of(where: ModelSettings | ServedSettings) -> Base:
    """The unedited model, with the edits that a checkpoint carries."""
    if not is_checkpoint(where.name):
        return Base(where.load(), None, {})
    places = {key: value for key, value in asdict(where).items() if key != "revision"}
    return load_base(places.pop("name"), **places)


def earlier_tasks(
    base: Base, settings: StudySettings, now: str
) -> tuple[dict[str, Content], list[Task]]:
    """The tasks of a checkpoint's earlier edits, but for the one of this name.

    A task that cannot be made, such as of a file that was deleted, is printed.
    """
    contents, tasks, reasons = dict[str, Content](), list[Task](), dict[str, str]()
    for name, content in task_contents(base.record).items():
        if name == now:
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
        if (axis := edit["axis"]) not in (*contents, now):
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
        raise UserError(f"{run.path} recommends no edit: nothing to save")
    name, template = run.manifest["model"], run.manifest.get("template")
    where = make_settings(ModelSettings, "model", config["model"])
    measured = replace(
        where,
        name=name,
        adapter=(run.config.get("model") or {}).get("adapter"),
        bos=run.manifest.get("bos", where.bos),
        template="chat" if template else "none",
        instruction=template["instruction"] if template else where.instruction,
    )
    model = measured.load()
    # Of quantised weights the hash is another.
    known = not run.manifest.get("is_quantized") or model.is_quantized
    if known and model.fingerprint != run.manifest["model_hash"]:
        raise UserError(f"{name} is not the model that {run.path} edited: its weights differ")
    saved = saving.save_best(replace(part, model=model))
    say([f"Edit: {part.best.label}", *saved_as(saved)])


def part_of(run: Run, task: str | None) -> Run:
    """The part of a run for a task; without a task its only part, or the edit of all."""
    parts = run.by_task()
    if task is None and (run.best is not None or len(parts) == 1):
        return run if run.best is not None else next(iter(parts.values()))
    if task is None:
        raise UserError(f"{run.path} has several tasks: write run_task=NAME, of {', '.join(parts)}")
    if task not in parts:
        raise unknown("task of the run", task, parts)
    return parts[task]


def save_settings(command: str, config: Mapping[str, Any]) -> SaveSettings:
    """The settings of saving, checked; a checkpoint of the same command may exist."""
    if config["form"] not in FORMS:
        raise unknown("form", config["form"], FORMS)
    target = Path(str(config["save"])).expanduser() if config["save"] else None
    if target is not None:
        own = record_of(target).get("command") == command_line(command, TARGET)
        check_target(target, config["overwrite"] or own)
    return SaveSettings(**({key: config[key] for key in SAVING} | {"save": target}))
