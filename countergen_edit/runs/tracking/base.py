"""Trackers and their registry; rows become figures by name."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from countergen_edit.core.errors import UserError
from countergen_edit.core.registry import Registry
from countergen_edit.core.writing import digest
from countergen_edit.metrics.rows import Row

LONGEST = 240
"""Characters of a figure's name; MLflow takes 250."""
_NO_NAME = re.compile(r"[^\w\-. :/]", re.ASCII)
"""What MLflow takes in no name."""


@dataclass(frozen=True)
class TrackedRun:
    """The run that a tracker shows."""

    path: Path
    """Its folder."""
    name: str
    fingerprint: str
    """Tells it from every other run; a killed run goes on under the same."""
    settings: Mapping[str, str]
    """By dotted key: what its rows depend on."""


class Tracker(ABC):
    """Shows one run elsewhere; one is made for each run folder.

    Settings are the arguments of `__init__`, which is called before anything runs and refuses
    invalid ones. A later failure ends the tracker and not the run.
    """

    @abstractmethod
    def begin(self, run: TrackedRun) -> None:
        """Show the run, or go on showing it where it was shown before."""

    @abstractmethod
    def log(self, figures: Mapping[str, float], step: int, rows: Sequence[Row]) -> None:
        """Show a recorded unit of work.

        Args:
            figures: values of its rows, and ends of their intervals, by name.
            step: the number of units shown before.
            rows: the rows.
        """

    @abstractmethod
    def end(self, finished: bool) -> None:
        """End the run; it may continue later unless it is finished."""


TRACKERS: Registry[type[Tracker]] = Registry(
    "tracker",
    "countergen_edit.trackers",
    {
        "tensorboard": "countergen_edit.runs.tracking.tensorboard:TensorBoard",
        "mlflow": "countergen_edit.runs.tracking.mlflow:MLflow",
        "wandb": "countergen_edit.runs.tracking.wandb:WandB",
    },
)
"""Every tracker by its name in config; a package enters its own as an entry point of the group."""


def figures_of(rows: Sequence[Row]) -> dict[str, float]:
    """The values of rows by name, and under `lo` and `hi` the ends of their intervals.

    >>> figures_of([Row("mean_abs_r", 0.5, dataset="jobs", split="test", lo=0.4, hi=0.6)])
    {'mean_abs_r/jobs/test/none': 0.5, 'mean_abs_r/jobs/test/none/lo': 0.4, \
'mean_abs_r/jobs/test/none/hi': 0.6}
    """
    figures: dict[str, float] = {}
    for row in rows:
        name = _name(row)
        for value, end in ((row.value, ""), (row.lo, "/lo"), (row.hi, "/hi")):
            if value is not None and math.isfinite(value):
                figures[name + end] = float(value)
    return figures


def _name(row: Row) -> str:
    """The key of a row in characters that every tracker accepts."""
    groups = "-".join(filter(None, (row.group_a, row.group_b)))
    facets = (f"{key} {value}" for key, value in row.facets.items())
    parts = (row.metric, row.task, row.dataset, *facets, groups, row.split, row.edit)
    whole = "/".join(part.replace("/", "_") for part in parts if part)
    name = _NO_NAME.sub("_", whole)[:LONGEST]
    # A digest distinguishes long values.
    return name if name == whole else f"{name[: LONGEST - 9]}.{digest(whole)[:8]}"


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings by dotted key.

    >>> flat({"seed": 0, "edit": {"layers": [1, 2]}})
    {'seed': '0', 'edit.layers': '[1, 2]'}
    """
    lines: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            lines |= flat(value, f"{prefix}{key}.")
        else:
            lines[f"{prefix}{key}"] = str(value)
    return lines


def require_library(tracker: str, library: str) -> None:
    """See before a run that a tracker's library is there.

    Raises:
        UserError: naming the extra.
    """
    if find_spec(library) is None:
        raise UserError(
            f"tracker={tracker} needs {library}: pip install 'countergen-edit[{tracker}]'"
        )
