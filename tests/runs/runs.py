"""What runs of tests are known by, and how they are made, killed and continued."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from countergen_edit.data.task import Task
from countergen_edit.edits import UNCHANGED, Edit, applied
from countergen_edit.metrics.rows import SCHEMA, Row
from countergen_edit.models import LanguageModel
from countergen_edit.runs.files import RESULTS
from countergen_edit.runs.fit_data import FitData, capture_sites
from countergen_edit.runs.folder import RunFolder
from countergen_edit.runs.plan import Plan
from countergen_edit.runs.runner import run as run_plan

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


def run(model: LanguageModel, plan: Plan, path: Path | RunFolder, **options: Any) -> list[Row]:
    folder = path if isinstance(path, RunFolder) else RunFolder(path, {}, IDENTITY)
    run_plan(plan, model, folder, **options)
    return folder.rows()


def resumed(model: LanguageModel, plan: Plan, path: Path, *units: int) -> bytes:
    """The rows of a run that was killed after so many units, each time anew, and then finished."""
    for left in units:
        with pytest.raises(KilledError):
            run(model, plan, Dying.after(left, path))
    run(model, plan, path)
    return (path / RESULTS).read_bytes()


def value(rows: Sequence[Row], metric: str, **columns: object) -> float:
    """The value of the only row of a metric with these columns."""
    columns["metric"] = metric
    [row] = [r for r in rows if all(getattr(r, k) == v for k, v in columns.items())]
    assert row.value is not None
    return row.value


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def captured(model: LanguageModel, task: Task, layer: int, before: Edit = UNCHANGED) -> FitData:
    """What a layer is fitted on under an edit, by plain capture in the batches of a run."""
    place: dict[str, Any] = {"sites": ["resid_post"], "layers": [layer], "positions": "outputs"}
    with applied(model, before):
        return capture_sites(model, task.fit, task.keep, task.weighed, **place)["resid_post"]
