"""`countergen-edit audit`."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli import compare
from countergen_edit.cli.printing import say, show
from countergen_edit.cli.study import (
    ModelSettings,
    StudySettings,
    command_line,
    fitting,
    model_settings,
    study_settings,
)
from countergen_edit.core.errors import UserError
from countergen_edit.data.design import HALF_WIDTH, SetDesign
from countergen_edit.edits.checkpoints import Checkpoint, is_checkpoint, open_checkpoint
from countergen_edit.metrics.base import METRICS, Cost, Metric
from countergen_edit.models import LanguageModel
from countergen_edit.reports.findings import after_audit
from countergen_edit.runs.files import ORIGINAL
from countergen_edit.runs.plan import lacking
from countergen_edit.runs.run import Run

IN_VOCABULARY = "in_vocabulary"


def run(config: Mapping[str, Any]) -> None:
    """Run or resume an audit; a checkpoint is then compared with its unedited model."""
    checkpoint = checkpoint_of(config)
    made = audited(config, study_settings(config))
    model = made.model
    assert model is not None
    show(made, then=[] if checkpoint or model.no_activations else after_audit(made))
    if checkpoint is not None:
        path = made.path
        del model, made
        gc.collect()
        compare_with_original(config, checkpoint, path)


def audited(
    config: Mapping[str, Any],
    settings: StudySettings,
    model: LanguageModel | None = None,
    folder: Path | None = None,
    design: Sequence[SetDesign] = (),
) -> Run:
    """The audit of a configuration, or of another model in another folder on test sets alike."""
    erasers, metrics, baselines = settings.erasers, settings.metrics, settings.baselines
    model = model or settings.model.load()
    task = settings.task_in_vocabulary(model, design)
    if task.out_of_vocabulary:
        vocabulary = {IN_VOCABULARY: METRICS.make(IN_VOCABULARY)}
        metrics = {**metrics, **vocabulary} if task.test else vocabulary
    if task.is_out_of_vocabulary:
        erasers, baselines = {}, {}
    metrics = fitting(metrics, task)
    if not erasers:
        metrics = without_costs(metrics, model)
    return api.audit(
        model,
        task,
        erasers,
        metrics,
        folder or settings.run_dir,
        site=settings.edit.site,
        layers=settings.edit.layers,
        successive_halving=config["successive_halving"],
        baselines=baselines,
        seed=settings.seed,
        config=settings.config,
        command=command_line("audit"),
        **settings.edit.how,
    )


def without_costs(metrics: Mapping[str, Metric], model: LanguageModel) -> dict[str, Metric]:
    """The metrics, without the default costs that an unedited model cannot be measured by."""
    costs = {name: metric for name, metric in metrics.items() if isinstance(metric, Cost)}
    if left_out := [name for name, cost in costs.items() if lacking(model, cost)]:
        why = model.no_likelihoods or model.no_activations
        say([f"Not measured on {model.name}, {why}: {', '.join(left_out)}."])
    return {name: metric for name, metric in metrics.items() if name not in left_out}


def checkpoint_of(config: Mapping[str, Any]) -> Checkpoint | None:
    """The audited checkpoint, if it is to be compared with its unedited model."""
    original, model = config["original"], model_settings(config["model"])
    checkpoint = isinstance(model, ModelSettings) and is_checkpoint(model.name)
    if original not in (None, api.ON_RECORD) and not checkpoint:
        raise UserError(
            f"original={original}: {model.name} is no checkpoint of this package, which alone has "
            "an original: hold two runs against each other by countergen-edit compare RUN RUN"
        )
    return open_checkpoint(model.name) if checkpoint and original is not None else None


def compare_with_original(config: Mapping[str, Any], checkpoint: Checkpoint, path: Path) -> None:
    """Audit the unedited model of a checkpoint in `RUN_DIR/original`, and print the changes."""
    where = asdict(model_settings(config["model"]))
    del where["name"], where["revision"]
    try:
        model = api.load_original(checkpoint, config["original"], **where)
    except UserError as error:
        if config["original"] != api.ON_RECORD:
            raise
        say(["", f"Not held against its original: {error}"])
        return
    settings = study_settings({**config, "eraser": {}, "baseline": {}})
    rows = api.load_run(path).results.rows
    designs = {r.dataset: SetDesign(**r.detail) for r in rows if r.metric == HALF_WIDTH}
    before = audited(config, settings, model, path / ORIGINAL, [*designs.values()])
    say(["", f"Against {model.name}, the model that it was made of:", ""])
    compare.show(api.compare(before, path, seed=config["seed"]))
    say([f"Report, with what it changed: {api.load_run(path).report()}"])
