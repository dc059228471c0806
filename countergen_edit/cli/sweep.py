"""`countergen-edit sweep`: every cell of a search, its tables, figures and page.

With `--multirun` each job records its cells beside the run folder, and the same command without it
takes them over, runs what is missing, and chooses.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import show
from countergen_edit.cli.search_settings import scratch, searched_layers
from countergen_edit.cli.settings import (
    StudySettings,
    axes_of,
    command_line,
    effort,
    integer,
    integers,
    study_settings,
    words,
)
from countergen_edit.core.writing import only_writer
from countergen_edit.data.task import Task
from countergen_edit.decisions.selection import choose, points
from countergen_edit.metrics.base import Cost
from countergen_edit.models import LanguageModel
from countergen_edit.reports.closing import how_to_save
from countergen_edit.reports.render.export import search_figures
from countergen_edit.reports.run import Run
from countergen_edit.reports.sections import sections
from countergen_edit.runs.folder import FAILED

POOL = Path("runs") / "sweep" / "parts"
"""Where jobs leave their cells, if no run_dir is given."""


def run(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """Run, or finish, the sweep that a composed config describes.

    Returns:
        Of a job of `--multirun`: bias removed and cost of its best cell on validation data, which a
        sweeper may optimise.

    Raises:
        SystemExit: with code 1 after a whole sweep in which an eraser failed on some cell.
    """
    settings, is_job = study_settings(config), _is_job()
    erasers, metrics = settings.erasers(), settings.metrics()
    thorough = effort(config["effort"])
    model = settings.model.load()
    swept = api.search(
        model,
        _tasks(config["axes"], settings, model),
        erasers,
        metrics,
        settings.run_dir,
        sites=words("sites", config["sites"]) or (settings.edit.site,),
        layers=searched_layers(config["layers"], model),
        ranks=integers("ranks", config["ranks"]),
        combine=integer("combine", config["combine"]),
        mix=True,
        tested="every",
        positions=settings.edit.positions,
        effort=thorough,
        sinks=settings.edit.sinks,
        fitted=settings.edit.fitted,
        scratch=scratch(config["scratch"]),
        seed=settings.seed,
        pool=Path(f"{settings.run_dir}.parts") if settings.run_dir else POOL,
        finish=not is_job,
        config=settings.config,
        command=command_line("sweep"),
    )
    if is_job:
        return _best(swept, settings)
    with only_writer(swept.path):
        files = search_figures(sections(swept), swept.path / "figures", swept.erasers)
    show(swept, f"Figures: {', '.join(path.name for path in files)}", *how_to_save(swept))
    failed = [row for row in swept.results.rows if row.metric == FAILED]
    if failed:
        print(f"countergen-edit: {len(failed)} cell(s) failed, see above", file=sys.stderr)
        raise SystemExit(1)
    return None


def _tasks(axes: Any, settings: StudySettings, model: LanguageModel) -> list[Task]:
    several = axes_of(axes)
    if several is None:
        return [settings.task(model)]
    return [settings.about(axis, data).task(model) for axis, data in several.items()]


def _best(swept: Run, settings: StudySettings) -> tuple[float, float]:
    """Bias removed and cost of the best cell of a job."""
    costs = [m for m in api.named_metrics(settings.metrics()) if isinstance(m, Cost)]
    parts = swept.results.by_task().values()
    candidates = [p for part in parts for p in points(part.rows, "validation", costs)]
    best = choose(candidates) if candidates else None
    return (best.removed, best.cost) if best else (0.0, float("inf"))


def _is_job() -> bool:
    """Whether this process is one job of `--multirun`."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
