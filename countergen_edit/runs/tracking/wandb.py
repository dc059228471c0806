"""Weights & Biases: a run's settings and figures, online, or offline to be synchronised later.

Comes in: figures by name. Goes out: a run of W&B's with the run's fingerprint as its id. Neither
what is printed, nor the machine, nor the source is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from countergen_edit.metrics.rows import Row
from countergen_edit.runs.tracking.base import TrackedRun, Tracker, require_library


class WandB(Tracker):
    """Sends to Weights & Biases, or writes what `wandb sync` sends later.

    Args:
        project: under which runs stand.
        entity: user or team; None takes one's own.
        mode: online, offline or disabled; None takes W&B's own, $WANDB_MODE or online.
        directory: where W&B keeps its files; None takes the run folder.

    Raises:
        UserError: W&B is not installed.
    """

    def __init__(
        self,
        project: str = "countergen_edit",
        entity: str | None = None,
        mode: str | None = None,
        directory: str | None = None,
    ) -> None:
        require_library("wandb", "wandb")
        self.project = project
        self.entity = entity
        self.mode = mode
        self.directory = directory
        self._run: Any = None

    def begin(self, run: TrackedRun) -> None:
        wandb: Any = import_module("wandb")  # whose types depend on whether it is installed
        private = {"disable_git": True, "x_disable_meta": True, "x_disable_stats": True}
        self._run = wandb.init(
            project=self.project,
            entity=self.entity,
            name=run.name,
            id=run.fingerprint[:32],
            resume="allow",
            config=dict(run.settings),
            dir=self.directory or str(run.path),
            mode=self.mode,
            reinit="create_new",
            settings=wandb.Settings(console="off", silent=True, save_code=False, **private),
        )

    def log(self, figures: Mapping[str, float], step: int, rows: Sequence[Row]) -> None:
        self._run.log(dict(figures), step=step)

    def end(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)
