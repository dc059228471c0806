"""What runs of tests are known by, and how they are killed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from countergen_edit.data.task import Task
from countergen_edit.edits import UNCHANGED, Edit, applied
from countergen_edit.metrics.rows import SCHEMA, Row
from countergen_edit.models import LanguageModel
from countergen_edit.runs.fit_data import FitData, capture_sites
from countergen_edit.runs.folder import RunFolder

IDENTITY = {"fingerprint": "f" * 64, "schema": SCHEMA}


class KilledError(Exception):
    """The run ends here."""


class Dying(RunFolder):
    """A folder in which a run ends as soon as it would record one unit too many."""

    left = 0
    """Units that it still takes."""

    @classmethod
    def after(cls, units: int, path: Path) -> Self:
        """The folder of a test's run that ends after so many units."""
        folder = cls(path, {}, IDENTITY)
        folder.left = units
        return folder

    def record(self, unit: str, rows: Sequence[Row]) -> None:
        if self.left == 0:
            raise KilledError
        self.left -= 1
        super().record(unit, rows)


def captured(model: LanguageModel, task: Task, layer: int, before: Edit = UNCHANGED) -> FitData:
    """What a layer is fitted on under an edit, by plain capture in the batches of a run."""
    place: dict[str, Any] = {"sites": ["resid_post"], "layers": [layer], "positions": "outputs"}
    with applied(model, before):
        return capture_sites(model, task.fit, task.keep, task.weighed, **place)["resid_post"]
