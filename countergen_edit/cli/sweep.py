"""`countergen-edit sweep`; jobs of `--multirun` record their candidates beside the run folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from countergen_edit import api
from countergen_edit.cli.printing import show
from countergen_edit.cli.study import (
    command_line,
    integers,
    searched_layers,
    study_settings,
    texts_in,
)
from countergen_edit.core.writing import only_writer
from countergen_edit.models import Scratch
from countergen_edit.reports.findings import after_search
from countergen_edit.reports.render import export
from countergen_edit.reports.sections import sections
from countergen_edit.runs.files import FAILED

POOL = Path("runs") / "sweep" / "parts"
"""Where jobs record their candidates without a run_dir."""


def run(config: Mapping[str, Any]) -> None:
    """Run or resume a sweep; it ends with code 1 if an eraser failed on a candidate."""
    settings, is_job = study_settings(config), is_multirun_job()
    model = settings.model.load()
    swept = api.search(
        model,
        settings.task(model),
        settings.erasers,
        settings.metrics,
        settings.run_dir,
        sites=texts_in(config["sites"]) or (settings.edit.site,),
        layers=searched_layers(config["layers"], model),
        ranks=integers("ranks", config["ranks"]),
        combine=config["combine"],
        tested="every",
        successive_halving=config["successive_halving"],
        scratch=Scratch(int(config["memory_gib"] * 2**30)),
        seed=settings.seed,
        pool=Path(f"{settings.run_dir}.parts") if settings.run_dir else POOL,
        finish=not is_job,
        config=settings.config,
        command=command_line("sweep"),
        **settings.edit.how,
    )
    if is_job:
        return
    with only_writer(swept.path):
        searched = [part for part in sections(swept) if part.name in ("search", "layers")]
        files = export(searched, swept.path / "figures", ["svg", "png"])
    show(swept, f"Figures: {', '.join(path.name for path in files)}", *after_search(swept))
    failed = [row for row in swept.results.rows if row.metric == FAILED]
    if failed:
        print(f"countergen-edit: {len(failed)} cell(s) failed, see above", file=sys.stderr)
        raise SystemExit(1)


def is_multirun_job() -> bool:
    """Whether this process runs a job of `--multirun`."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN
