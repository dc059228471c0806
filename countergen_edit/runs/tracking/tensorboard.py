"""TensorBoard: a run's figures as event files, which `tensorboard --logdir` shows.

Comes in: figures by name. Goes out: event files, in the run folder unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from countergen_edit.metrics.rows import Row
from countergen_edit.runs.tracking.base import TrackedRun, Tracker, require_library


class TensorBoard(Tracker):
    """Writes event files.

    Args:
        directory: folder in which each run has one of its own; None puts it into the run folder.

    Raises:
        UserError: TensorBoard is not installed.
    """

    def __init__(self, directory: str | None = None) -> None:
        require_library("tensorboard", "tensorboard")
        self.directory = directory
        self._writer: Any = None

    def begin(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        place = Path(self.directory) / run.name if self.directory else run.path / "tensorboard"
        self._writer = SummaryWriter(str(place))
        lines = "\n".join(f"| {key} | {value} |" for key, value in run.settings.items())
        self._writer.add_text("settings", f"| setting | value |\n|---|---|\n{lines}", 0)
        self._writer.flush()

    def log(self, figures: Mapping[str, float], step: int, rows: Sequence[Row]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self, finished: bool) -> None:
        self._writer.close()
