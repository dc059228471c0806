"""`countergen-edit classifiers`: a task on a classifier or masked language model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import show
from countergen_edit.cli.study import ModelSettings, command_line, layers_in, make_settings, new_run
from countergen_edit.core.errors import UserError, command, unknown
from countergen_edit.data.template_bank import TemplateBank, load_bank
from countergen_edit.erasers import ERASERS
from countergen_edit.metrics.classifier_tasks import TASKS, ClassifierTask
from countergen_edit.runs.classifiers import Where, check_edits, classifier_audit
from countergen_edit.runs.run import open_run
from countergen_edit.testbed.classifiers import build, plant

TESTBED, UNBIASED = "testbed", "testbed-unbiased"
"""The constructed models, whose answers are known."""
LAST = "last"
ANSWERED = ("eraser", "run_dir")
"""Settings that the same question with an eraser does not repeat."""
SITES = ("resid_post", "embed")


def run(config: Mapping[str, Any]) -> None:
    """Run or resume the task; print its table."""
    seed = config["seed"]
    name = config["task"]["name"]
    own = {k: value for k, value in config["task"].items() if k not in ("name", "most")}
    task: ClassifierTask = TASKS.make(name, own)
    bank = load_bank(task.templates or name, config["template_file"])
    bank = bank.thinned(config["task"].get("most") or {})
    erasers = {name: ERASERS.make(name, kind) for name, kind in (config["eraser"] or {}).items()}
    where = where_edited(config["edit"])
    settings = make_settings(ModelSettings, "model", config["model"])
    model = build_model(task, settings, bank, config["labels"])
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
    _, *words = command_line("classifiers")
    same = [word for word in words if word.partition("=")[0] not in ANSWERED]
    erase = f"Next, erase it: {command(*same, 'eraser=leace')}"
    show(open_run(folder.path), then=[] if config["eraser"] else [erase])


def where_edited(section: Mapping[str, Any]) -> Where:
    """Where a classifier is edited."""
    layers = layers_in("edit.layers", section.get("layers"), LAST)
    own = {**section, "layers": None if layers == LAST else layers}
    where = make_settings(Where, "edit", own)
    if where.site not in SITES:
        raise unknown("edit.site", where.site, SITES)
    return where


def build_model(
    task: ClassifierTask, settings: ModelSettings, bank: TemplateBank, labels: list[str] | None
) -> Any:
    """The model for a task; `testbed` and `testbed-unbiased` name the constructed ones."""
    name = settings.name
    for key in ("quantization", "adapter"):
        if getattr(settings, key) is not None:
            raise UserError(f"a classifier is read as it is saved: leave model.{key} out")
    if name in (TESTBED, UNBIASED):
        return task.wrap(name, *build(plant(bank, biased=name == TESTBED)), labels)
    where = {key: getattr(settings, key) for key in ("device", "dtype", "revision")}
    return task.load(name, labels, **where)
