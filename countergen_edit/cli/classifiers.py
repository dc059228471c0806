"""`countergen-edit classifiers`: a task on a classifier or masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from countergen_edit.cli.printing import show_run
from countergen_edit.cli.study import Content, command_line, model_loader, new_run
from countergen_edit.core.errors import UserError
from countergen_edit.data.template_bank import TemplateBank, load_bank
from countergen_edit.metrics.classifier_tasks import TASKS, ClassifierTask
from countergen_edit.runs.run import open_run
from countergen_edit.testbed.classifiers import build, plant
from countergen_edit.testbed.files import TESTBED

UNBIASED = "testbed-unbiased"
"""The constructed model without a bias; the testbed is the one with it."""


def run_classifiers(config: Content, words: Sequence[str]) -> None:
    """Run or resume the task; print its table."""
    name, most = config["task"]["name"], config["task"].get("most") or {}
    settings = {k: value for k, value in config["task"].items() if k not in ("name", "most")}
    task: ClassifierTask = TASKS.make(name, settings)
    bank = load_bank(name, config["template_file"]).thinned(most)
    model = build_model(task, config["model"], bank, config["labels"])
    folder = new_run(
        command_line("classifiers", words),
        config,
        [Path(model.name).name, Path(name).name],
        model=model.name,
        model_hash=model.fingerprint,
        data_hash=bank.fingerprint,
    )
    with folder:
        if not folder.done(unit := f"classifiers/{bank.task}"):
            folder.record(unit, task.rows(bank.for_model(model.name), model, config["seed"]))
    show_run(open_run(folder.path))


def build_model(task: ClassifierTask, content: Content, bank: TemplateBank, labels: Any) -> Any:
    """The model for a task; `testbed` and `testbed-unbiased` name the constructed ones."""
    model_loader(content)  # checks the settings
    if "served_name" in content:
        raise UserError(f"{content['name']} is a server, and a classifier is read from files")
    is_built = (name := content["name"]) in (TESTBED, UNBIASED)
    for key in ("quantization", *(["adapter"] if is_built else [])):
        if content.get(key) is not None:
            raise UserError(f"a classifier is read as it is saved: leave model.{key} out")
    if is_built:
        return task.wrap(name, *build(plant(bank, biased=name == TESTBED)), labels)
    where = {key: content[key] for key in ("device", "dtype", "revision", "adapter")}
    return task.load(name, labels, **where)
