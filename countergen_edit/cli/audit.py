"""`countergen-edit audit`: settings → objects → a run, its tables and its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import say, show
from countergen_edit.cli.settings import command_line, effort, study_settings
from countergen_edit.experiments.unedited import lacking
from countergen_edit.metrics.base import Cost, Metric
from countergen_edit.models import LanguageModel


def run(config: Mapping[str, Any]) -> None:
    """Run, or finish, the audit that a composed config describes; print it and its folder."""
    settings = study_settings(config)
    erasers, metrics, ways = settings.erasers(), settings.metrics(), settings.ways()
    thorough = effort(config["effort"])
    model = settings.model.load()
    if not erasers:
        metrics = without_costs(metrics, model)
    audited = api.audit(
        model,
        settings.task(model),
        erasers,
        metrics,
        settings.run_dir,
        site=settings.edit.site,
        layers=settings.edit.layers,
        positions=settings.edit.positions,
        effort=thorough,
        sinks=settings.edit.sinks,
        fitted=settings.edit.fitted,
        beside=ways,
        seed=settings.seed,
        config=settings.config,
        command=command_line("audit"),
    )
    show(audited)


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
