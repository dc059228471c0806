"""`countergen-edit templates`: a template task on a classifier or masked language model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from countergen_edit.cli.build import TESTBED
from countergen_edit.cli.settings import ModelSettings
from countergen_edit.conf_path import conf_dir, read_config
from countergen_edit.data.axis import Axis
from countergen_edit.data.template_bank import TemplateBank, bank_from_config
from countergen_edit.errors import UserError, unknown
from countergen_edit.experiments.manifest import make_manifest
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics.classifier_tasks.tasks import (
    TASKS,
    Model,
    Vader,
    bank_hash,
    measure_templates,
)
from countergen_edit.models import lexicon
from countergen_edit.models.classifiers import classifier_from_objects, load_classifier
from countergen_edit.models.masked import load_masked, masked_from_objects
from countergen_edit.reports.html import write_report
from countergen_edit.reports.results import Results
from countergen_edit.reports.run import open_run
from countergen_edit.reports.template_tables import template_table
from countergen_edit.testbed.classifiers import build, plant

UNBIASED = "testbed-unbiased"


def run(config: Mapping[str, Any]) -> None:
    """Run, or finish, the task that a composed config describes; print its table."""
    seed = config["seed"]
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise UserError(f"seed={seed!r} is not a whole number")
    task = config["task"]["name"]
    bank = build_bank(task, config["template_file"])
    model = build_model(ModelSettings(**config["model"]), bank, config["labels"])
    kept = {key: value for key, value in config.items() if key != "run_dir"}
    manifest = make_manifest(
        config=kept,
        model=model.name,
        model_hash=model.fingerprint,
        data_hash=bank_hash(bank),
        seed=seed,
        command=["countergen-edit", "templates", *sys.argv[1:]],
    )
    label = f"{Path(model.name).name}-{task}-{manifest['fingerprint'][:8]}"
    folder = RunFolder(
        Path(config["run_dir"] or Path("runs") / "templates" / label), kept, manifest
    )
    rows = measure_templates(bank, model, folder, seed)
    console = Console(highlight=False)
    same = bool(bank.published_for) and bank.published_for in model.name
    console.print(template_table(Results(rows), bank.table, model.name, published=same))
    console.print(f"\nReport: {write_report(open_run(folder.path))}", soft_wrap=True)
    console.print(f"Run folder: {folder.path}", soft_wrap=True)


def build_bank(task: str, template_file: str | None) -> TemplateBank:
    """The task's templates, and those of the user's own file.

    Raises:
        UserError: the file is not there, is no YAML, or does not fit the task.
    """
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    axes = {
        path.stem: Axis.from_config(read_config("axis", path.stem))
        for path in (conf_dir() / "axis").glob("*.yaml")
    }
    bank = bank_from_config(read_config("template", task), axes)
    if template_file is None:
        return bank
    path = Path(template_file)
    if not path.is_file():
        raise UserError(f"no template file {template_file!r}")
    try:
        own = yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {error}") from None
    if not isinstance(own, Mapping):
        raise UserError(f"{path} holds no template families; conf/template shows the shape")
    if own.get("task", task) != task:
        raise UserError(f"{path} is for task {own['task']!r}, but task={task} is asked for")
    return bank.extended(own, axes)


def build_model(settings: ModelSettings, bank: TemplateBank, labels: list[str] | None) -> Model:
    """The model for a task; `testbed` and `testbed-unbiased` name the constructed ones."""
    where = {
        "device": settings.device,
        "dtype": settings.dtype,
        "revision": settings.revision,
    }
    if settings.name == lexicon.NAME:
        if bank.task != "sentiment":
            raise UserError(f"VADER scores sentiment, not task={bank.task}")
        return Vader()
    masked = bank.task == "masked"
    if settings.name in (TESTBED, UNBIASED):
        objects = build(plant(bank, biased=settings.name == TESTBED))
        if masked:
            return masked_from_objects(settings.name, *objects)
        return classifier_from_objects(settings.name, *objects, bank.task, labels)
    if masked:
        return load_masked(settings.name, **where)  # type: ignore[arg-type]
    return load_classifier(settings.name, bank.task, labels=labels, **where)  # type: ignore[arg-type]
