"""`countergen-edit classifiers`: a task on a classifier or masked language model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import show
from countergen_edit.cli.study import (
    ModelSettings,
    command_line,
    components,
    layers_in,
    make_settings,
    new_run,
)
from countergen_edit.core.errors import UserError, command
from countergen_edit.data.template_bank import TemplateBank, load_bank
from countergen_edit.erasers import ERASERS
from countergen_edit.metrics.classifier_tasks import TASKS, ClassifierTask
from countergen_edit.reports.run import open_run
from countergen_edit.runs.classifiers import Where, check_edits, classifier_audit
from countergen_edit.testbed.classifiers import build, plant

BIASED, UNBIASED = "testbed", "testbed-unbiased"
"""The constructed models, whose answers are known."""
LAST_LAYER = "last"


def run(config: Mapping[str, Any]) -> None:
    """Run or resume the task; print its table."""
    seed, section = config["seed"], dict(config["task"])
    name, most = section.pop("name"), section.pop("most", None)
    task: ClassifierTask = TASKS.make(name, section)
    bank = load_bank(task.templates or name, config["template_file"]).thinned(most or {})
    erasers = components(config, "eraser", ERASERS)
    where = where_edited(config["edit"])
    model = build_model(task, config, bank)
    check_edits(model, erasers, where)
    folder = new_run(
        "classifiers",
        {key: value for key, value in config.items() if key != "run_dir"},
        config["run_dir"],
        [Path(model.name).name, Path(name).name],
        model=model.name,
        model_hash=model.fingerprint,
        data_hash=bank.fingerprint,
        seed=seed,
    )
    with folder:
        classifier_audit(task, bank, model, folder, seed, erasers, where)
    words = command_line("classifiers")[1:]
    same = [word for word in words if word.partition("=")[0] not in ("eraser", "run_dir")]
    erase = f"Next, erase it: {command(*same, 'eraser=leace')}"
    show(open_run(folder.path), then=[] if erasers else [erase])


def where_edited(section: Mapping[str, Any]) -> Where:
    """Where a classifier is edited."""
    layers = layers_in("edit.layers", section.get("layers"), LAST_LAYER)
    return make_settings(
        Where, "edit", {**section, "layers": None if layers == LAST_LAYER else layers}
    )


def build_model(task: ClassifierTask, config: Mapping[str, Any], bank: TemplateBank) -> Any:
    """The model for a task; `testbed` and `testbed-unbiased` name the constructed ones."""
    settings = make_settings(ModelSettings, "model", config["model"])
    for key in ("quantization", "adapter"):
        if getattr(settings, key) is not None:
            raise UserError(f"a classifier is read as it is saved: leave model.{key} out")
    if settings.name in (BIASED, UNBIASED):
        planted = plant(bank, biased=settings.name == BIASED)
        return task.wrap(settings.name, *build(planted), config["labels"])
    where = {key: getattr(settings, key) for key in ("device", "dtype", "revision")}
    return task.load(settings.name, config["labels"], **where)
