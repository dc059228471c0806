"""Rows and edits that jobs of one search have recorded, copied by the run that joins them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from countergen_edit.core.reading import json_mapping
from countergen_edit.core.writing import whole, whole_folder
from countergen_edit.edits import read_record
from countergen_edit.metrics.results import STORE
from countergen_edit.metrics.rows import Row
from countergen_edit.runs.files import EDITS, MANIFEST
from countergen_edit.runs.folder import recorded_units


def parts_of(pool: Path, tasks: Mapping[str, str]) -> dict[str, list[Row]]:
    """Rows by unit of the jobs in a folder with the same model, data and code, named by task."""
    units: dict[str, list[Row]] = {}
    for part, alike in _alike(pool, tasks):
        for unit, rows in recorded_units(part).items():
            if unit.partition("/")[0] in alike:
                units.setdefault(unit, rows)
    return units


def take_files(pool: Path, tasks: Mapping[str, str], run: Path) -> None:
    """Copy edits and single texts from jobs' run folders, where the run has none."""
    for part, alike in _alike(pool, tasks):
        for folder in sorted((part / EDITS).glob("*/")):
            target = run / EDITS / folder.name
            if folder.suffix == ".tmp" or target.exists() or read_record(folder).task not in alike:
                continue
            with whole_folder(target) as temporary:
                shutil.copytree(folder, temporary, dirs_exist_ok=True)
        for task in sorted(alike):
            for path in sorted((part / STORE / task).rglob("*.jsonl")):
                target = run / path.relative_to(part)
                if not target.exists():
                    with whole(target) as temporary:
                        shutil.copyfile(path, temporary)


def _alike(pool: Path, tasks: Mapping[str, str]) -> Iterator[tuple[Path, set[str]]]:
    """The jobs' run folders with a task of the same model, data and code, and those tasks."""
    for path in sorted(pool.glob(f"*/{MANIFEST}")):
        theirs = json_mapping(path).get("tasks", {})
        alike = {task for task, identity in tasks.items() if theirs.get(task) == identity}
        if alike:
            yield path.parent, alike
