"""`countergen-edit edit`: save an edited model with its card: an eraser's edit, or a run's best.

A checkpoint with edits gets one more, and its earlier tasks are measured again if they can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from countergen_edit import api
from countergen_edit.cli.composing import OF_TASK
from countergen_edit.cli.printing import say, show_run
from countergen_edit.cli.study import Content, Study, command_line, model_loader
from countergen_edit.core.errors import UserError, require_known
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
from countergen_edit.models.tokens import mode_of
from countergen_edit.reports.findings import saved_as
from countergen_edit.runs.run import Run

SAVING = ("save", "form", "overwrite")
UNRECORDED = ("save", "overwrite")
"""The settings of a command that its record leaves out."""


class Saving:
    """Where the checkpoint of a command goes, and in which form; its own one may be there."""

    def __init__(self, command: str, config: Content, words: Sequence[str]) -> None:
        require_known("form", config["form"], FORMS)
        self.form, self.overwrite = str(config["form"]), bool(config["overwrite"])
        self.save = Path(str(config["save"])).expanduser() if config["save"] else None
        """None: into the run folder."""
        if self.save is not None:
            own = record_of(self.save).get("command") == command_line(command, words, UNRECORDED)
            check_target(self.save, self.overwrite or own)

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
            run = replace(run, model=model_loader(where)())
        assert run.best is not None
        return run.best.save(self.save or run.path / "checkpoint", self.form, self.overwrite)


def run_edit(config: Content, words: Sequence[str]) -> None:
    """Measure, fit and save."""
    if not config["save"]:
        raise UserError("say where the checkpoint goes: save=DIR")
    saving = Saving("edit", config, words)
    if config["run"]:
        save_of_run(config, saving)
        return
    study = Study(config, words, (*SAVING, "run"))
    if len(study.erasers) != 1:
        raise UserError(
            f"a checkpoint holds one edit, not {len(study.erasers)}: name one eraser, such as "
            "eraser=rlace; `countergen-edit audit` compares several"
        )
    base, place = base_of(study), study.place
    if study.fits_maps:
        saving.check(base.model, place.site, place.layers, base.before)
    task = study.task(base.model)
    contents, earlier = earlier_tasks(base, study, task.name)
    if earlier:
        contents[task.name] = {key: study.config[key] for key in OF_TASK}
        study.config["tasks"] = contents
    edited = api.audit(
        base.model,
        task,
        study.erasers,
        study.metrics,
        study.run_dir,
        site=place.site,
        layers=place.layers,
        before=base.before,
        earlier=earlier,
        command=command_line("edit", words, UNRECORDED),
        **study.how,
    )
    assert edited.best is not None
    show_run(edited, f"Edit: {edited.best.label}", *saved_as(saving.save_best(edited)))


def base_of(study: Study) -> Base:
    """The unedited model, with the edits that a checkpoint carries."""
    where = dict(study.content["model"])
    if not is_checkpoint(name := where.pop("name")):
        return Base(study.load(), None, {})
    return load_base(name, **{key: value for key, value in where.items() if key != "revision"})


def earlier_tasks(base: Base, study: Study, now: str) -> tuple[dict[str, Content], list[Task]]:
    """The tasks of a checkpoint's earlier edits, but for the one of this name.

    A task that cannot be made, such as of a file that was deleted, is printed.
    """
    contents, tasks, reasons = dict[str, Content](), list[Task](), dict[str, str]()
    for name, content in task_contents(base.record).items():
        if name == now:
            continue
        try:
            tasks.append(study.task(base.model, content))
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


def save_of_run(config: Content, saving: Saving) -> None:
    """Save the best edit of an earlier run."""
    run = api.load_run(str(config["run"]))
    if run.results.is_unedited:
        raise UserError(f"{run.path} measured a model and made no edit: nothing to save")
    if run.best is None and len(parts := run.by_task()) > 1:
        raise UserError(
            f"{run.path} has several tasks: save one from Python, of {', '.join(parts)}"
        )
    if run.best is None:
        raise UserError(f"{run.path} recommends no edit: nothing to save")
    own, name, template = config["model"], run.manifest["model"], run.manifest.get("template")
    where = {
        **own,
        "name": name,
        "adapter": (run.config.get("model") or {}).get("adapter"),
        "bos": run.manifest.get("bos", own["bos"]),
        "template": mode_of(template),
        "instruction": template["instruction"] if template else own["instruction"],
    }
    model = model_loader(where)()
    # Of quantised weights the hash is another.
    known = not run.manifest.get("is_quantized") or model.is_quantized
    if known and model.fingerprint != run.manifest["model_hash"]:
        raise UserError(f"{name} is not the model that {run.path} edited: its weights differ")
    saved = saving.save_best(replace(run, model=model))
    say([f"Edit: {run.best.label}", *saved_as(saved)])
