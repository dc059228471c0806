"""`countergen-edit sweep`; jobs of `--multirun` record their candidates beside the run folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import show
from countergen_edit.cli.study import (
    StudySettings,
    command_line,
    integers,
    searched_layers,
    study_settings,
    texts_in,
)
from countergen_edit.core.writing import only_writer
from countergen_edit.decisions.selection import choose, points
from countergen_edit.metrics.base import Cost
from countergen_edit.models import Scratch
from countergen_edit.reports.findings import after_search
from countergen_edit.reports.render import search_figures
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections import sections
from countergen_edit.runs.files import FAILED

POOL = Path("runs") / "sweep" / "parts"
"""Where jobs record their candidates without a run_dir."""


def run(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """Run or resume a sweep.

    Returns:
        Of a job of `--multirun`: bias removed and cost of its best candidate on validation data,
        for a sweeper to optimise.

    Raises:
        SystemExit: with code 1 after a whole sweep in which an eraser failed on a candidate.
    """
    settings, is_job = study_settings(config), is_multirun_job()
    erasers, metrics = settings.make_erasers(), settings.make_metrics()
    model = settings.model.load()
    tasks = [own.task(model) for own in settings.by_axis(config["axes"])]
    swept = api.search(
        model,
        tasks if config["axes"] else tasks[0],
        erasers,
        metrics,
        settings.run_dir,
        sites=texts_in(config["sites"]) or (settings.edit.site,),
        layers=searched_layers(config["layers"], model),
        ranks=integers("ranks", config["ranks"]),
        combine=config["combine"],
        mix=True,
        tested="every",
        positions=settings.edit.positions,
        successive_halving=config["successive_halving"],
        skip_attention_sinks=settings.edit.skip_attention_sinks,
        fitted=settings.edit.fitted,
        scratch=Scratch(int(config["memory_gib"] * 2**30)),
        seed=settings.seed,
        pool=Path(f"{settings.run_dir}.parts") if settings.run_dir else POOL,
        finish=not is_job,
        config=settings.config,
        command=command_line("sweep"),
    )
    if is_job:
        return best_of(swept, settings)
    with only_writer(swept.path):
        files = search_figures(sections(swept), swept.path / "figures")
    show(swept, f"Figures: {', '.join(path.name for path in files)}", *after_search(swept))
    failed = [row for row in swept.results.rows if row.metric == FAILED]
    if failed:
        print(f"countergen-edit: {len(failed)} cell(s) failed, see above", file=sys.stderr)
        raise SystemExit(1)
    return None


def best_of(swept: Run, settings: StudySettings) -> tuple[float, float]:
    """Bias removed and cost of the best candidate of a job."""
    costs = [m for m in api.named_metrics(settings.make_metrics()) if isinstance(m, Cost)]
    parts = swept.results.by_task().values()
    candidates = [p for part in parts for p in points(part.rows, "validation", costs)]
    best = choose(candidates) if candidates else None
    return (best.removed, best.cost) if best else (0.0, float("inf"))


def is_multirun_job() -> bool:
    """Whether this process runs a job of `--multirun`."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
