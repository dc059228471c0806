"""`countergen-edit classifiers`: a task of templates on a classifier or masked language model.

Comes in: a composed config. Goes out: the task's table, and a run folder. Refused: an unknown task,
a model that does not fit it, templates that do not fit together.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from countergen_edit.cli.settings import integer
from countergen_edit.data.template_bank import TemplateBank
from countergen_edit.data.template_files import load_bank
from countergen_edit.experiments.classifiers import classifier_audit
from countergen_edit.experiments.manifest import make_manifest
from countergen_edit.experiments.run_folder import RunFolder
from countergen_edit.metrics.classifier_tasks import TASKS, ClassifierTask
from countergen_edit.metrics.classifier_tasks.metric import ClassifierTasks
from countergen_edit.reports.render.terminal import print_sections
from countergen_edit.reports.run import open_run
from countergen_edit.testbed.classifiers import build, plant

TESTBED, UNBIASED = "testbed", "testbed-unbiased"
"""The constructed models, whose answers are known."""


def run(config: Mapping[str, Any]) -> None:
    """Run, or finish, the task that a composed config describes; print its table."""
    seed = integer("seed", config["seed"])
    name = config["task"]["name"]
    task: ClassifierTask = TASKS.make(name)
    bank = load_bank(name, config["template_file"])
    model = build_model(task, config["model"], bank, config["labels"])
    kept = {key: value for key, value in config.items() if key != "run_dir"}
    manifest = make_manifest(
        config=kept,
        model=model.name,
        model_hash=model.fingerprint,
        data_hash=bank.fingerprint,
        seed=seed,
        command=["countergen-edit", "classifiers", *sys.argv[1:]],
    )
    label = f"{Path(model.name).name}-{Path(name).name}-{manifest['fingerprint'][:8]}"
    place = Path("runs") / "classifiers" / label
    folder = RunFolder(Path(config["run_dir"] or place), kept, manifest)
    classifier_audit(task, bank, model, folder, seed)
    console = Console(highlight=False)
    results = open_run(folder.path)
    print_sections(ClassifierTasks.sections(results.results), console)
    for words in (f"Report: {results.report()}", f"Run folder: {folder.path}"):
        console.print(words, soft_wrap=True, markup=False)


def build_model(
    task: ClassifierTask,
    settings: Mapping[str, Any],
    bank: TemplateBank,
    labels: list[str] | None = None,
) -> Any:
    """The model for a task; `testbed` and `testbed-unbiased` name the constructed ones."""
    name = str(settings["name"])
    if name in (TESTBED, UNBIASED):
        return task.wrap(name, *build(plant(bank, biased=name == TESTBED)), labels)
    where = {key: settings[key] for key in ("device", "dtype", "revision")}
    return task.load(name, labels, **where)
