"""`countergen-edit audit`: settings → objects → a run, its tables and its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import show
from countergen_edit.cli.settings import command_line, effort, study_settings


def run(config: Mapping[str, Any]) -> None:
    """Run, or finish, the audit that a composed config describes; print it and its folder."""
    settings = study_settings(config)
    erasers, metrics, ways = settings.erasers(), settings.metrics(), settings.ways()
    thorough = effort(config["effort"])
    model = settings.model.load()
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
