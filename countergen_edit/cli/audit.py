"""`countergen-edit audit`: settings → objects → a run, its tables and its page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from countergen_edit import api
from countergen_edit.cli import against_original
from countergen_edit.cli.askable import askable
from countergen_edit.cli.printing import say, show
from countergen_edit.cli.settings import command_line, effort, study_settings
from countergen_edit.metrics.base import METRICS, Cost, Metric
from countergen_edit.models import LanguageModel
from countergen_edit.reports.closing import after_audit
from countergen_edit.runs.folder import Prepared
from countergen_edit.runs.halving import plan_of
from countergen_edit.runs.plan import Plan, lacking

IN_VOCABULARY = "in_vocabulary"
"""What is measured beside all else where sets are left out; alone, where all of them are."""


def run(config: Mapping[str, Any]) -> None:
    """Run, or finish, the audit that a composed config describes; print it and its folder.

    A checkpoint of this package is then held against the model that it was made of.
    """
    original = against_original.wanted(config)
    prepared, model = prepare(config)
    audited = api.load_run(prepared.run(model), model)
    show(audited, then=[] if original or model.no_activations else after_audit(audited))
    if original is not None:
        del model
        against_original.run(config, original, audited.path)


def prepare(
    config: Mapping[str, Any], load: Callable[[], LanguageModel] | None = None
) -> tuple[Prepared, LanguageModel]:
    """The audit that a composed config describes, checked and not begun, and its model.

    Args:
        config: as Hydra composed it.
        load: gives the model, where it is another than the config's.
    """
    settings = study_settings(config)
    load = load or settings.model.load
    erasers, metrics, ways = settings.erasers(), settings.metrics(), settings.ways()
    halving = plan_of(effort(config["effort"]))
    model = load()
    task = settings.known_task(model)
    if task.out_of_vocabulary:
        told = {IN_VOCABULARY: METRICS.make(IN_VOCABULARY)}
        metrics = {**metrics, **told} if task.test else told
    if task.out_of_vocabulary and not (task.fit and task.test):
        erasers, ways = {}, {}
    metrics = askable(metrics, task)
    if not erasers:
        metrics = without_costs(metrics, model)
    edit = settings.edit
    plan = Plan(
        tasks=[api.with_truth(model, task)],
        erasers=erasers,
        metrics=api.named_metrics(metrics),
        sites=(edit.site,),
        layers=edit.layers,
        together=edit.layers is not None,
        positions=edit.positions,
        halving=halving,
        sinks=edit.sinks,
        seed=settings.seed,
        baselines=ways,
        fitted=edit.fitted,
    )
    words = command_line("audit")
    prepared = api.prepare(model, plan, settings.run_dir, settings.config, words, load)
    return prepared, model


def without_costs(metrics: Mapping[str, Metric], model: LanguageModel) -> dict[str, Metric]:
    """The metrics without the costs that a model which is not edited cannot be measured by.

    Costs are there unless the user says otherwise, so that they are left out and not refused.
    """
    left_out = [
        name
        for name, metric in metrics.items()
        if isinstance(metric, Cost) and lacking(model, metric)
    ]
    if left_out:
        why = model.no_likelihoods or model.no_activations
        say([f"Not measured on {model.name}, {why}: {', '.join(left_out)}."])
    return {name: metric for name, metric in metrics.items() if name not in left_out}
