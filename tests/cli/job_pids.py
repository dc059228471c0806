"""A Hydra callback that tells which processes jobs ran in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback


class RecordPid(Callback):
    """Leaves an empty file named after the process that a job starts in."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def on_job_start(self, config: Any, **kwargs: Any) -> None:
        (self.folder / str(os.getpid())).touch()
